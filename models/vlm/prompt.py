"""A model's prompt, cut where the page stands: what comes before it and what follows.

The checkpoint's own chat template writes it; the first part becomes the sink, the last one is prefilled again for
each page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from data_contracts.errors import ModelUnavailable


@dataclass(frozen=True)
class Prompt:
    """Token ids around the page."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        instruction: str,
        image_token_id: int,
        *,
        around: tuple[str, str] = ("", ""),
        conversation: str | None = None,
    ) -> Prompt:
        """Return the prompt of one page with ``instruction``.

        ``around`` is what stands before and behind the page beside the template. ``conversation``, with ``{page}`` and
        ``{instruction}`` in it, is the template of a checkpoint that has none.

        Raises:
            ModelUnavailable: the page does not stand in it exactly once.
        """
        image_token = tokenizer.convert_ids_to_tokens(image_token_id)
        if tokenizer.chat_template:
            content = [{"type": "image"}, {"type": "text", "text": instruction}]
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
            )
        else:
            text = (conversation or "{page}\n{instruction}").format(page=image_token, instruction=instruction)
        framed = text.replace(image_token, f"{around[0]}{image_token}{around[1]}")
        complete = bool(tokenizer.chat_template or conversation)
        return cls.cut(tokenizer.encode(framed, add_special_tokens=not complete), image_token_id)

    @classmethod
    def cut(cls, input_ids: Sequence[int], image_token_id: int) -> Prompt:
        """Cut ``input_ids`` at the image token.

        Raises:
            ModelUnavailable: there is not exactly one.
        """
        places = [place for place, token_id in enumerate(input_ids) if token_id == image_token_id]
        if len(places) != 1:
            raise ModelUnavailable(
                f"the prompt has {len(places)} places for a page in {len(input_ids)} tokens, expected 1: the "
                "checkpoint's chat template or tokenizer belong to another model. Fetch the model's files again."
            )
        return cls(tuple(input_ids[: places[0]]), tuple(input_ids[places[0] + 1 :]))
