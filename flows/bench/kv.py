"""``tomeflow bench kv``: the proof that memory does not grow with the pages, beside what other ways of reading hold.

Arguments, table, JSON and plot; ``kv_measure.py`` measures. Imports nothing heavy before it measures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_contracts.errors import ConfigError, ContractViolated
from flows.bench.kv_report import GB, Report, plot

if TYPE_CHECKING:
    from flows.bench.page_turner import Setup

GEOMETRY_NAMES = ("7b-mha", "7b-gqa", "unlimited-ocr")
DEPTHS = (10, 100, 1000)
LATENCY_PAIRS = 500
BASELINE_GB = 8.0
DOCUMENTS = 100
TEXT_TOKENS = 640
"""Output tokens of a dense page, as others report for the same kind of decoder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tomeflow bench kv``."""
    add = parser.add_argument
    add("--geometry", choices=GEOMETRY_NAMES, default="7b-mha", help="shape of the decoder (default: 7b-mha)")
    add("--pages", type=_count, default=100, metavar="N", help="pages read (default: 100)")
    add("--window", type=_count, default=8, metavar="N", help="pages held at full resolution (default: 8)")
    add("--top-k", type=int, default=4, metavar="N", help="references fetched a page (default: 4)")
    add("--reference-tokens", type=int, default=16, metavar="N", help="tokens of a reference (default: 16)")
    add("--reference-pages", type=int, default=64, metavar="N", help="capacity of the store (default: 64)")
    add("--tail", type=int, default=128, metavar="N", help="output tokens held (default: 128)")
    add("--text-tokens", type=_count, default=TEXT_TOKENS, metavar="N", help="output tokens a page (default: 640)")
    add("--layers", type=_count, metavar="N", help="allocate so many layers and multiply (default: all)")
    add("--depths", type=_pages, default=DEPTHS, metavar="LIST", help="pages at which a step is timed (10,100,1000)")
    add("--pairs", type=_count, default=LATENCY_PAIRS, metavar="N", help="early and late steps compared (default: 500)")
    add(
        "--baseline-gb",
        type=float,
        default=BASELINE_GB,
        metavar="GB",
        help="the most one baseline may allocate (default: 8)",
    )
    add("--threads", type=_count, metavar="N", help="threads of torch (default: its own choice)")
    add("--device", default="cpu", metavar="cpu|cuda", help="where tensors are allocated (default: cpu)")
    add(
        "--retrieval",
        type=_count,
        nargs="?",
        const=DOCUMENTS,
        metavar="N",
        help="also: are planted pages found again in the store? (in N constructed documents, default: 100)",
    )
    add("--plot", type=Path, metavar="FILE.png", help="draw memory and latency against pages")
    add("--json", action="store_true", help="print one JSON object and nothing else on standard output")


def main(arguments: Sequence[str] | argparse.Namespace) -> int:
    """Run ``tomeflow bench kv`` and return the exit code; progress goes to standard error.

    Raises:
        ConfigError: the arguments ask for what cannot be measured.
        ContractViolated: the bytes held are not those of the formula; the figures have been printed.
    """
    options = arguments if isinstance(arguments, argparse.Namespace) else _parsed(arguments)
    setup = _setup(options)
    report = _measure(setup, options.retrieval or 0)
    if options.plot:
        plot(report, options.plot)
    print(json.dumps(report.as_json()) if options.json else report.as_text())
    if not report.equals_formula:
        raise ContractViolated(
            f"held {report.measured.live_kv_bytes} live and {report.measured.store_kv_bytes} store bytes, the formula "
            f"says {setup.live_bytes} and {setup.store_bytes}. Report this as a bug, with the line above."
        )
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not 1 or more")
    return number


def _pages(text: str) -> tuple[int, ...]:
    return tuple(sorted({_count(part) for part in text.split(",") if part}))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tomeflow bench kv", description="Memory and latency of SR-SWA beside baselines."
    )
    add_arguments(parser)
    return parser.parse_args(arguments)


def _setup(options: argparse.Namespace) -> Setup:
    import torch
    from pydantic import ValidationError

    from data_contracts.config import SrSwaConfig
    from flows.bench.page_turner import GEOMETRIES, Setup

    torch.set_num_threads(options.threads or torch.get_num_threads())
    layers = GEOMETRIES[options.geometry].layers
    if (options.layers or layers) > layers:
        raise ConfigError(f"--layers {options.layers}: {options.geometry} has {layers} layers; give as many or fewer")
    try:
        config = SrSwaConfig(
            window_pages=options.window,
            top_k=options.top_k,
            reference_tokens=options.reference_tokens,
            reference_pages=options.reference_pages,
            tail_tokens=options.tail,
        )
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise ConfigError(f"the attention set cannot be laid out: {faults}") from error
    return Setup(
        geometry_name=options.geometry,
        pages=options.pages,
        config=config,
        text_tokens=options.text_tokens,
        layers=options.layers or layers,
        depths=options.depths,
        latency_pairs=options.pairs,
        baseline_bytes=int(options.baseline_gb * GB),
        device=options.device,
    )


def _measure(setup: Setup, documents: int) -> Report:
    """Measure one after another, so that at no time two of them are in memory; SR-SWA first, for its peak's sake."""
    from flows.bench import kv_measure
    from flows.bench.page_turner import PageTurner
    from models.sr_swa.baselines import BASELINES
    from models.sr_swa.planted import outcomes

    _say(f"SR-SWA: {setup.pages} pages, {setup.layers} layers")
    turner = PageTurner(setup, setup.layers)
    measured = kv_measure.measure_memory(setup, turner)
    if setup.layers > 1:
        turner = PageTurner(setup, layers=1)  # in place of the large one, which is released
    _say("SR-SWA: steps")
    step_ms = kv_measure.measure_steps(setup)
    latency_ratio = kv_measure.measure_latency_ratio(setup, turner)
    del turner
    baselines = []
    for baseline in BASELINES:
        _say(baseline.name)
        baselines.append(kv_measure.measure_baseline(setup, baseline))
    found = tuple(outcomes(documents)) if documents else ()
    return Report(setup, measured, step_ms, latency_ratio, (*baselines, kv_measure.ring_attention(setup)), found)


def _say(text: str) -> None:
    print(f"measuring {text}", file=sys.stderr, flush=True)
