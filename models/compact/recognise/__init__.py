"""Reads each line: frames and the CTC hypothesis."""
