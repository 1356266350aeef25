"""The same decoder on a GPU: equal to the CPU in float32, bounded memory, a pool that does not overflow.

Skipped where there is no CUDA device.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
from support.reference_transformer import written
from support.tiny_vlm import FeaturePages, tiny_reader, tiny_unlimited_ocr

from data_contracts.config import SrSwaConfig
from models.sr_swa.continuous import ContinuousDecoder
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.pool import SlotPool

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
PAGES = FeaturePages()
CONFIG = SrSwaConfig(window_pages=2, max_window_pages=2, top_k=1, reference_tokens=3, reference_pages=4, tail_tokens=4)
DRIFT_RATIO = 0.005
"""How much the peak may differ between page 20 and page 200."""


def read(device: str, dtype: torch.dtype, pages: int, **changes: Any) -> tuple[torch.Tensor, list[list[int]]]:
    seen: list[torch.Tensor] = []
    model = tiny_unlimited_ocr().to(device, dtype)
    reader = tiny_reader(model, watch=lambda row: seen.append(row.float().cpu()), **changes)
    results = ContinuousDecoder(reader, CONFIG).decode(PAGES.page(number) for number in range(1, pages + 1))
    return torch.stack(seen) if seen else torch.empty(0), [written(result) for result in results]


def test_a_gpu_reads_what_a_cpu_reads() -> None:
    _, expected = read("cpu", torch.float32, 5)
    _, found = read("cuda", torch.float32, 5)
    assert found == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_reads_every_page(dtype: torch.dtype) -> None:
    _, found = read("cuda", dtype, 6)
    assert [len(page) for page in found] == [6] * 6


def test_the_peak_of_device_memory_does_not_grow_with_the_pages() -> None:
    reader = tiny_reader(tiny_unlimited_ocr().to("cuda"))
    decoder = ContinuousDecoder(reader, CONFIG)
    list(decoder.decode(PAGES.page(number) for number in range(1, 201)))
    peaks = [timing.peak_memory_bytes for timing in decoder.take_timings()]
    assert max(peaks[19:]) <= (1 + DRIFT_RATIO) * peaks[19]


def test_the_watermark_reads_the_device() -> None:
    used_ratio = MemoryWatermark.for_cuda().read()
    held = torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
    assert MemoryWatermark.for_cuda().read() > used_ratio
    del held


def test_many_documents_at_once_stay_within_the_pool() -> None:
    geometry = tiny_reader(tiny_unlimited_ocr().to("cuda")).geometry
    pool = SlotPool(geometry, 4)
    results = {}

    def document(number: int) -> None:
        reader = tiny_reader(tiny_unlimited_ocr().to("cuda"))
        with pool.lend(CONFIG) as slots:
            decoder = ContinuousDecoder(reader, CONFIG, slots=slots)
            results[number] = [written(page) for page in decoder.decode(PAGES.page(page) for page in (1, 2, 3))]

    threads = [threading.Thread(target=document, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    gc.collect()
    assert len(results) == 6
    assert len({str(pages) for pages in results.values()}) == 1
    assert pool.free_pages == 4


def test_the_benchmark_measures_device_memory() -> None:
    from flows.bench.vlm import measure
    from flows.bench.vlm_decoder import Setup

    report = measure(Setup((8, 16), 1, "cuda", "bfloat16", 4, 64, 5))
    ours = report.contenders[-1]
    assert ours.kv_bytes[16] < report.contenders[0].kv_bytes[16]
    assert all(ours.peak_device_bytes.values())
