"""The parts of the attention set and what they are made of."""
