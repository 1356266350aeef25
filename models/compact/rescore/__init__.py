"""Scores known words against the picture where the hypothesis is unsure."""
