"""The compact reader: PP-OCRv6 on the CPU and what verifies it, page after page through SR-SWA.

In the order of reading: ``detect`` finds lines, ``recognise`` makes hypotheses of them, ``decode`` verifies these,
``rescore`` scores known words in their place; ``words`` cuts lines into words and tells languages. ``reader.py`` puts
them together.
"""
