"""Finds lines of text on a page."""
