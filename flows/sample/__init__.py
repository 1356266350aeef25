"""Draws a book that looks scanned, with its truth."""
