"""The autoregressive decoder, which verifies hypotheses."""
