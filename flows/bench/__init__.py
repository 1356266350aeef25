"""Measurements: each module is one of `tomeflow bench`."""
