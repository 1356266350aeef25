"""Draws the pages that the decoder learns from: text, typefaces, damage, and what the recogniser makes of them."""
