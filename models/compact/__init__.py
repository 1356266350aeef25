"""The embedded model: PP-OCRv6 eyes on the CPU, read through SR-SWA."""
