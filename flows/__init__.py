"""Prefect flows, the command line and the settings (the only reader of the environment)."""
