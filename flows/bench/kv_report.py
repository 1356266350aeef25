"""What ``tomeflow bench kv`` has measured, as a table, as JSON and as a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flows.bench.kv_measure import Contender, Measured
    from flows.bench.page_turner import Setup
    from models.sr_swa.planted import Outcome

GB = 1e9
"""Gigabytes are 10^9 bytes here, always."""


@dataclass(frozen=True)
class Report:
    """All that one run measured. ``retrieval`` is empty unless it was asked for."""

    setup: Setup
    measured: Measured
    step_ms: dict[int, float]
    latency_ratio: float | None
    baselines: tuple[Contender, ...]
    retrieval: tuple[Outcome, ...]

    @property
    def both_bytes(self) -> int:
        """The most that live parts and store held at one time, all layers."""
        return max(self.measured.both_kv_bytes)

    @property
    def full(self) -> Contender:
        """The baseline."""
        return self.baselines[0]

    @property
    def equals_formula(self) -> bool:
        """Whether live and store, each at its highest, are what SR-SWA.md says, to the byte."""
        formula = (self.setup.live_bytes, self.setup.store_bytes)
        return (self.measured.live_kv_bytes, self.measured.store_kv_bytes) == formula

    def saving_ratio(self, size_bytes: int) -> float:
        """Return the share of the full cache that is saved by holding ``size_bytes``."""
        return 1 - size_bytes / self.full.kv_bytes(self.setup.pages)

    def as_json(self) -> dict[str, Any]:
        """Return the figures under the names that scripts rely on; bytes are of all layers."""
        setup, measured, pages = self.setup, self.measured, self.setup.pages
        short = f"the run has {pages} pages: memory is full at page {setup.full_page}"
        early = f"the run has {pages} pages: the comparison is with page 80"
        return {
            "geometry": setup.geometry_name,
            "pages": pages,
            "layers_measured": setup.layers,
            "layers": setup.geometry.layers,
            "allocated": self._allocated,
            "parameters": self._parameters,
            "full_kv_bytes": self.full.kv_bytes(pages),
            "rswa_kv_bytes": self.baselines[1].kv_bytes(pages),
            "live_kv_bytes": measured.live_kv_bytes,
            "store_kv_bytes": measured.store_kv_bytes,
            "part_kv_bytes": measured.part_bytes,
            "peak_kv_bytes": self.both_bytes,
            "formula_kv_bytes": setup.live_bytes + setup.store_bytes,
            "equals_formula": self.equals_formula,
            "bookkeeping_bytes": measured.bookkeeping_bytes,
            "saving_ratio": self.saving_ratio(self.both_bytes),
            "saving_ratio_live": self.saving_ratio(measured.live_kv_bytes),
            "growth_bytes_per_page": measured.growth_bytes_per_page,
            "growth_null_because": short if measured.growth_bytes_per_page is None else None,
            "latency_ratio_last_to_80": self.latency_ratio,
            "latency_null_because": early if self.latency_ratio is None else None,
            "latency_pairs": setup.latency_pairs if self.latency_ratio is not None else 0,
            "step_ms": self.step_ms,
            "step_ms_is_of": "one output token through one layer",
            "peak_process_bytes": measured.peak_process_bytes,
            "peak_process_growth_bytes": measured.peak_process_growth_bytes,
            "baselines": [self._baseline_json(baseline) for baseline in self.baselines],
            "retrieval": [_retrieval_json(outcome) for outcome in self.retrieval],
        }

    def as_text(self) -> str:
        """Return the same figures as a table for people."""
        setup, measured = self.setup, self.measured
        given = ", ".join(f"{name} {value}" for name, value in self._parameters.items())
        growth, ratio = measured.growth_bytes_per_page, self.latency_ratio
        lines = [
            f"{setup.geometry_name}: {given}",
            f"GB = 10^9 bytes of all {setup.geometry.layers} layers; steps are of one output token through one layer",
            "",
            _row("", "memory GB", "saved", "MB/page", *(f"p.{page:,} ms" for page in setup.depths), "allocated"),
            self._own_row(),
            *(self._baseline_row(baseline) for baseline in self.baselines),
            "* timed on what fits and multiplied" if any(baseline.scaled_pages for baseline in self.baselines) else "",
            "",
            "parts [bytes]: " + ", ".join(f"{name} {size:,}" for name, size in measured.part_bytes.items()),
            f"live {measured.live_kv_bytes:,} + store {measured.store_kv_bytes:,} bytes, "
            + ("equal to the formula to the byte" if self.equals_formula else "NOT EQUAL to the formula"),
            f"positions and masses beside them: {measured.bookkeeping_bytes:,} bytes as allocated",
            f"growth from page {setup.full_page} on: "
            + ("not measured, the run is shorter" if growth is None else f"{growth:g} bytes a page"),
            f"step at page {setup.pages:,} over step at page 80: "
            + ("not measured, the run is shorter" if ratio is None else f"{ratio:.4f} ({setup.latency_pairs} pairs)"),
            f"peak memory of the process, or of the GPU, while SR-SWA read: {measured.peak_process_bytes / GB:.2f} GB",
        ]
        if self.retrieval:
            lines += ["", "Planted pages found again among the best 4, in constructed documents:"]
            lines += [f"{outcome}; random pages {_chance_ratio(outcome):.1%}" for outcome in self.retrieval]
        return "\n".join(lines)

    @property
    def _allocated(self) -> str:
        from flows.bench.kv_measure import allocation

        return allocation(self.setup.layers, self.setup.geometry.layers, self.setup.pages, self.setup.pages)

    @property
    def _parameters(self) -> dict[str, Any]:
        import torch

        setup, config = self.setup, self.setup.config
        return {
            "pages": setup.pages,
            "visual_tokens": setup.geometry.page_tokens,
            "text_tokens": setup.text_tokens,
            "window_pages": config.window_pages,
            "tail_tokens": config.tail_tokens,
            "top_k": config.top_k,
            "reference_tokens": config.reference_tokens,
            "reference_pages": config.reference_pages,
            "prompt_tokens": setup.geometry.prompt_tokens,
            "dtype": str(setup.geometry.dtype).removeprefix("torch."),
            "device": setup.device,
            "threads": torch.get_num_threads(),
        }

    def _baseline_json(self, baseline: Contender) -> dict[str, Any]:
        return {
            "name": baseline.name,
            "kv_bytes": baseline.kv_bytes(self.setup.pages),
            "growth_bytes_per_page": baseline.growth_bytes_per_page(self.setup.pages),
            "allocated": baseline.allocated,
            "step_ms": baseline.step_ms,
            "step_ms_multiplied_at_pages": baseline.scaled_pages,
        }

    def _own_row(self) -> str:
        growth = self.measured.growth_bytes_per_page
        return _row(
            "SR-SWA, store counted",
            f"{self.both_bytes / GB:.3f}",
            f"{self.saving_ratio(self.both_bytes):.1%}",
            "?" if growth is None else f"{growth / 1e6:.1f}",
            *(f"{ms:.1f}" for ms in self.step_ms.values()),
            self._allocated,
        )

    def _baseline_row(self, baseline: Contender) -> str:
        size_bytes = baseline.kv_bytes(self.setup.pages)
        steps = (
            f"{baseline.step_ms[page]:.1f}{'*' if page in baseline.scaled_pages else ''}"
            if page in baseline.step_ms
            else "-"
            for page in self.setup.depths
        )
        return _row(
            baseline.name,
            f"{size_bytes / GB:.3f}",
            f"{self.saving_ratio(size_bytes):.1%}",
            f"{baseline.growth_bytes_per_page(self.setup.pages) / 1e6:.1f}",
            *steps,
            baseline.allocated,
        )


def _chance_ratio(outcome: Outcome) -> float:
    """Return how often the right page would be among as many pages drawn at random from the store."""
    from models.sr_swa.planted import CAPACITY_PAGES, TOP_K, WINDOW_PAGES

    held_pages = min(CAPACITY_PAGES, outcome.scenario.late_page - WINDOW_PAGES)
    return outcome.kept / outcome.documents * TOP_K / held_pages


def _retrieval_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.scenario.name,
        "documents": outcome.documents,
        "kept": outcome.kept,
        "found": outcome.found,
        "found_ratio": outcome.found_ratio,
        "random_found_ratio": _chance_ratio(outcome),
        "right_cosine": None if math.isnan(outcome.right_cosine) else outcome.right_cosine,
        "best_wrong_cosine": outcome.best_wrong_cosine,
    }


def _row(name: str, *cells: str) -> str:
    return f"{name:<32}" + "".join(f"{cell:>12}" for cell in cells[:-1]) + f"  {cells[-1]}"


def plot(report: Report, path: Path) -> None:
    """Draw memory and latency against pages, a curve for each way of reading."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    setup = report.setup
    pages = range(1, setup.pages + 1)
    figure, (memory, latency) = pyplot.subplots(1, 2, figsize=(12, 5))
    memory.plot(
        pages, [size / GB for size in report.measured.both_kv_bytes], linewidth=3, label="SR-SWA, store counted"
    )
    latency.plot(setup.depths, list(report.step_ms.values()), marker="o", linewidth=3, label="SR-SWA")
    for baseline in report.baselines:
        memory.plot(pages, [baseline.kv_bytes(page) / GB for page in pages], label=baseline.name)
        if baseline.step_ms:
            latency.plot(setup.depths, list(baseline.step_ms.values()), marker="o", label=baseline.name)
    memory.set(title=f"Keys and values, {setup.geometry_name}", xlabel="page", ylabel="GB (10^9 bytes), all layers")
    latency.set(title="One output token through one layer", xlabel="page", ylabel="ms", xscale="log", yscale="log")
    memory.set_yscale("log")
    for axes in (memory, latency):
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
