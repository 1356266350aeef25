"""The gate: whether the decoder needs more of the document than its window.

It fires on the decoder's own uncertainty, never on every page: a fetch that was not needed costs time and draws
attention away from the page. Knows nothing of pages or models.
"""

from __future__ import annotations

import math

import torch

from data_contracts.config import SrSwaConfig


def need_cross_page_context(uncertainty: float, config: SrSwaConfig) -> bool:
    """Return whether references are to be fetched: ``uncertainty`` [0 sure .. 1 lost] is above the threshold.

    Strictly above: a decoder that is sure (0) never fires, and a threshold of 1 never does.

    Raises:
        ValueError: ``uncertainty`` is no number from 0 to 1; a broken decoder must not pass for a sure one.
    """
    if not 0 <= uncertainty <= 1:
        raise ValueError(f"uncertainty {uncertainty} is not between 0 and 1: divide an entropy by its maximum")
    return uncertainty > config.gate_uncertainty


def entropy_uncertainty(logits: torch.Tensor) -> torch.Tensor:
    """Return the entropy of softmax(``logits`` [..., classes]) over its maximum, 0 to 1, shape [...]."""
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    entropy = -(log_probabilities.exp() * log_probabilities).sum(-1)
    return (entropy / math.log(logits.shape[-1])).clamp(0, 1)
