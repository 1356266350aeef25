"""Sparse-reference sliding-window attention: the decoding mechanism, ignorant of any one model."""
