"""``tomeflow bench vlm``: what a large decoder costs page after page, with random weights at Unlimited-OCR's geometry.

Arguments, table and JSON; ``benchmark_vlm_decoder.py`` measures. Imports nothing heavy before it measures.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from data_contracts.errors import ConfigError
from flows.bench import vlm_decoder as bench
from flows.bench.vlm_decoder import Contender, Setup

DEPTHS = (8, 16, 32, 64)
TEXT_TOKENS = 640
STEPS = 15
CPU_LAYERS, CUDA_LAYERS = 1, 12
"""Of the model's 12 layers a CPU is given one: every figure but the head's is proportional to them."""
GB = 1e9


@dataclass
class Report:
    """All that one run measured."""

    setup: Setup
    card: str
    contenders: list[Contender]
    page_turn_ms: float
    page_decode_ms: float
    passes_by_draft_error: dict[float, float]

    @property
    def page_turn_ratio(self) -> float:
        """Share of a page's decode time that turning the page takes."""
        return self.page_turn_ms / self.page_decode_ms

    def as_json(self) -> dict[str, Any]:
        """Return the figures under the names that scripts rely on."""
        return asdict(self) | {"page_turn_ratio": self.page_turn_ratio, "draft_tokens": bench.DRAFT_TOKENS}

    def as_text(self) -> str:
        """Return a table for people."""
        setup = self.setup
        lines = [
            f"{setup.layers} of 12 layers, {setup.dtype}, {self.card}; random weights, {bench.EXPERTS} of 64 experts; "
            f"{bench.PAGE_TOKENS} visual and {setup.text_tokens} output tokens a page, window {setup.window_pages}",
            f"{'':>22}" + "".join(f"{depth:>11} p" for depth in setup.depths),
        ]
        for contender in self.contenders:
            lines.append(f"{contender.name:>14} ms/step" + _row(contender.step_ms, setup.depths, 1, 2))
            lines.append(f"{'KV GB':>22}" + _row(contender.kv_bytes, setup.depths, GB, 4))
            if contender.peak_device_bytes:
                lines.append(f"{'peak device GB':>22}" + _row(contender.peak_device_bytes, setup.depths, GB, 3))
        lines.append(
            f"page turn (evict, compress, fetch, re-base): {self.page_turn_ms:.1f} ms, "
            f"{100 * self.page_turn_ratio:.2f} % of a page's decode time of {self.page_decode_ms:.0f} ms"
        )
        passes = ", ".join(f"{100 * error:.0f} %: {passes:.1f}" for error, passes in self.passes_by_draft_error.items())
        lines.append(
            f"forward passes for a page of {bench.DRAFT_OUTPUTS} outputs with a draft of {bench.DRAFT_TOKENS} tokens, "
            f"by share of wrong tokens: {passes}; without a draft {bench.DRAFT_OUTPUTS + 1}"
        )
        return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tomeflow bench vlm``."""
    add = parser.add_argument
    add(
        "--depths",
        default=",".join(map(str, DEPTHS)),
        metavar="LIST",
        help="pages at which steps are timed (8,16,32,64)",
    )
    add("--layers", type=int, metavar="N", help="layers run, of 12 (default: 1 on a CPU, 12 on a GPU)")
    add("--window", type=int, default=8, metavar="N", help="pages held at full resolution (default: 8)")
    add("--text-tokens", type=int, default=TEXT_TOKENS, metavar="N", help="output tokens a page (default: 640)")
    add("--steps", type=int, default=STEPS, metavar="N", help=f"steps timed at each depth (default: {STEPS})")
    add("--device", default="auto", choices=["auto", "cuda", "mps", "cpu"], help="where it computes (default: auto)")
    add("--threads", type=int, metavar="N", help="threads of torch (default: its own choice)")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")


def main(arguments: Sequence[str] | argparse.Namespace) -> int:
    """Run ``tomeflow bench vlm`` and return the exit code; progress goes to standard error.

    Raises:
        ConfigError: the arguments ask for what cannot be measured.
        ModelUnavailable: this machine has no such device, or transformers has another version.
    """
    options = arguments if isinstance(arguments, argparse.Namespace) else _parsed(arguments)
    report = measure(_setup(options))
    print(json.dumps(report.as_json()) if options.json else report.as_text())
    return 0


def measure(setup: Setup) -> Report:
    """Run all contenders at all depths."""
    model = bench.random_decoder(setup)
    contenders = [
        bench.measure_stock(setup, model, "full cache"),
        bench.measure_stock(setup, model, "R-SWA"),
    ]
    ours, turn_ms = bench.measure_sr_swa(setup, model)
    return Report(
        setup=setup,
        card=bench.card(setup.device),
        contenders=[*contenders, ours],
        page_turn_ms=turn_ms,
        page_decode_ms=setup.text_tokens * statistics.median(ours.step_ms.values()),
        passes_by_draft_error=bench.count_passes(model),
    )


def _row(figures: dict[int, Any], depths: Sequence[int], unit: float, digits: int) -> str:
    return "".join(f"{figures[depth] / unit:>13.{digits}f}" for depth in depths)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tomeflow bench vlm", description="A large decoder page after page: memory, steps, page turns, drafts."
    )
    add_arguments(parser)
    return parser.parse_args(arguments)


def _setup(options: argparse.Namespace) -> Setup:
    import torch

    from data_contracts.config import VlmConfig
    from models.vlm.loading import choose_place

    place = choose_place(VlmConfig(device=options.device))
    try:
        depths = tuple(sorted({int(depth) for depth in options.depths.split(",")}))
    except ValueError:
        raise ConfigError(f"--depths {options.depths}: give page numbers such as 8,16,32") from None
    layers = options.layers or (CPU_LAYERS if place.device == "cpu" else CUDA_LAYERS)
    if min(*depths, options.steps, options.window, options.text_tokens, layers) < 1:
        raise ConfigError("--depths, --steps, --window, --text-tokens and --layers are at least 1")
    if options.threads:
        torch.set_num_threads(options.threads)
    dtype = str(place.dtype).removeprefix("torch.")
    return Setup(depths, layers, place.device, dtype, options.window, options.text_tokens, options.steps)
