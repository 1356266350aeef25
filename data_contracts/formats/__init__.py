"""Contracts about files that are published and read back."""
