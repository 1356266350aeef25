"""The embedded model: PP-OCRv6 on the CPU, read through SR-SWA."""
