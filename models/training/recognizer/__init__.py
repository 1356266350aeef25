"""Trains recognisers for old print: PP-OCRv6's networks, trained further on real and drawn lines.

``python -m models.training.recognizer.train`` trains and goes on where it stopped. No weights of it are shipped yet.
"""
