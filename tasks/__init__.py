"""Thin Prefect tasks, strangers to one another; each body is testable through ``.fn``."""
