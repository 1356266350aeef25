"""A tokenizer of letters in transformers' own format: every character and every mark is a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def letter_tokenizer(marks: Sequence[str], letters: Sequence[str], chat_template: str | None = None) -> Any:
    """Return one whose ids count ``marks`` (``<s>``, ``</s>``, ``<unk>`` among them) and then ``letters``."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate([*marks, *letters])}
    tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.Split(Regex(r".|\n"), "isolated")
    tokens.decoder = decoders.Fuse()
    tokens.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])])
    ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    others = [mark for mark in marks if mark not in ends.values()]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, **ends, additional_special_tokens=others)
    tokenizer.chat_template = chat_template
    return tokenizer
