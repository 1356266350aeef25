"""How the compact decoder's weights are made: text, faces, degradation, features, training, evaluation.

``python -m models.training.drawing.generate`` makes the data, ``python -m models.training.train`` trains on whatever
data exist, ``python -m models.training.evaluate`` measures. Nothing here is imported when documents are read, and the
installed package does not have it; ``log.md`` says what was tried.
"""
