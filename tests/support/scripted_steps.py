"""The step process with a scripted model in it, whose pages hang, die or fail as ``script.json`` says.

``script.json`` in the folder SCRIPTED_FOLDER maps "STAGE PAGE" (STAGE: encode, decode; "load 0" is the model) to [what
happens, times]; what
happens is hang, die, fail, doubt (a low confidence), or hold until there is a file ``go`` or ``go STAGE PAGE``.
"pause_s" in it is what every page takes. ``executions.txt`` beside it gets a line for every page begun, ``memory.txt``
the resident memory at every hundredth page.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import resource
import threading
import time
import weakref
from functools import cache
from pathlib import Path

from support.fakes import ScriptedModel

from flows.execution import steps
from flows.execution.rendering import BoundedPages
from models.process_memory import PROCESS_PAGES
from models.sr_swa.context import AttentionContext
from models.sr_swa.controller import MemoryWatermark
from models.sr_swa.pages import Decoding, EncodedPage, PageImage

FOLDER = Path(os.environ["SCRIPTED_FOLDER"])
MADE: list[weakref.ref[PageImage]] = []
COUNTING = threading.Lock()
MEMORY_NOTED_EVERY_PAGES = 100


class DisturbedModel(ScriptedModel):
    """Reads like ``ScriptedModel``, except where the script says otherwise."""

    def encode_visual(self, image: PageImage) -> EncodedPage:
        happen("encode", image.page_number)
        return super().encode_visual(image)

    def decode(self, page: EncodedPage, context: AttentionContext) -> Decoding:
        what = happen("decode", page.page_number)
        if page.page_number % MEMORY_NOTED_EVERY_PAGES == 0:
            resident_bytes = int(PROCESS_PAGES.read_text().split()[1]) * resource.getpagesize()
            with (FOLDER / "memory.txt").open("a") as file:
                file.write(f"{resident_bytes}\n")
        decoding = super().decode(page, context)
        if what == "doubt":
            lines = tuple(line.model_copy(update={"confidence": 0.1}) for line in decoding.lines)
            return dataclasses.replace(decoding, lines=lines)
        return decoding


class CountedSource(BoundedPages):
    """Notes in ``most_alive.txt`` the most page images that were in memory at a time."""

    def render(self, page_number: int) -> PageImage:
        image = super().render(page_number)
        with COUNTING:
            MADE.append(weakref.ref(image))
            MADE[:] = [made for made in MADE if made() is not None]
            most = FOLDER / "most_alive.txt"
            if len(MADE) > (int(most.read_text()) if most.exists() else 0):
                written = FOLDER / "most_alive.part"
                written.write_text(str(len(MADE)))
                written.replace(most)  # in one piece: this process may be killed at any moment
        return image


def happen(stage: str, page_number: int) -> str:
    """Do what the script says, and return what that is."""
    begun = f"{stage} {page_number}"
    with (FOLDER / "executions.txt").open("a") as file:
        file.write(f"{begun}\n")
    script = json.loads((FOLDER / "script.json").read_text())
    time.sleep(script.get("pause_s", 0))
    what, times = script.get(begun, ("", 0))
    if not what or (FOLDER / "executions.txt").read_text().split("\n").count(begun) > times:
        return ""
    while what == "hold" and not (FOLDER / "go").exists() and not (FOLDER / f"go {begun}").exists():
        time.sleep(0.02)
    if what == "hang":
        time.sleep(10_000)
    elif what == "die":
        ctypes.string_at(0)
    elif what == "fail":
        raise ZeroDivisionError(f"scripted at {begun}")
    return str(what)


def memory_in_use() -> float:
    return 1.0 if (FOLDER / "short of memory").exists() else 0.0


@cache
def load_model(_reading: object) -> DisturbedModel:
    if "load 0" in json.loads((FOLDER / "script.json").read_text()):
        happen("load", 0)
    return DisturbedModel()


def install() -> None:
    """Have the steps of this process read with the scripted model."""
    steps.load_model = load_model
    steps.BoundedPages = CountedSource
    MemoryWatermark.for_process = lambda: MemoryWatermark(read=memory_in_use)
