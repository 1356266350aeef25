"""How the recogniser's weights for old print are made: PP-OCRv6's networks, trained further on real and drawn lines.

``python -m models.training.recognizer.train`` trains and goes on where it stopped;
``python -m models.training.recognizer.export`` writes the weights that are shipped.
"""
