"""How the compact decoder's weights are made: text, faces, degradation, features, training, evaluation.

``python -m models.training.drawing.generate`` makes the data, ``...train`` trains on whatever data exist,
``...evaluate`` measures. Nothing here is imported when documents are read.
"""
