"""Shows how far a run is, by following the loggers of the steps: a bar on a terminal, else plain lines."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

PLAIN_LINE_EVERY_S = 10.0
_ENCODED, _DONE = "tomeflow.encode", "tomeflow.digitize"


def follow(name: str) -> None:
    """Have what the logger ``name`` says printed on standard error as it comes."""
    logger = logging.getLogger(name)
    logger.addHandler(logging.StreamHandler(sys.stderr))
    logger.setLevel(logging.INFO)
    logger.propagate = False


class Progress(logging.Handler):
    """Counts the pages that have been seen or finished; warnings are printed as they come.

    Pages are counted when encoded, since that is where the time goes; a chunk taken from a checkpoint is
    counted when it is done. Each page counts once.
    """

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        """Write to ``stream``; a terminal gets a bar."""
        super().__init__(logging.INFO)
        self._stream = stream
        self._seen: set[tuple[str, int]] = set()
        self._totals: dict[str, int] = {}
        self._started = self._last_line = time.monotonic()
        self._bar = None
        if stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(unit="page", file=stream, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        """Start following."""
        for name in (_ENCODED, _DONE):
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
            logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        """Stop following and close the bar."""
        for name in (_ENCODED, _DONE):
            logging.getLogger(name).removeHandler(self)
        if self._bar is not None:
            self._bar.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Advance by the pages the record speaks of."""
        document = getattr(record, "document_id", "")
        if hasattr(record, "page_total"):
            self._totals[document] = record.page_total
            if self._bar is not None:
                self._bar.total = self._total
                self._bar.refresh()
        if record.levelno >= logging.WARNING:
            self._print(record.getMessage())
        numbers = getattr(record, "page_numbers", ()) or [getattr(record, "page_number", 0)]
        new = {(document, number) for number in numbers if number} - self._seen
        if not new:
            return
        self._seen |= new
        if self._bar is not None:
            self._bar.update(len(new))
        elif time.monotonic() - self._last_line > PLAIN_LINE_EVERY_S or len(self._seen) == self._total:
            self._last_line = time.monotonic()
            rate = len(self._seen) / max(self._last_line - self._started, 1e-9)
            self._print(f"{len(self._seen)} of {self._total} pages, {rate:.2f} pages/s{self._remaining(rate)}")

    @property
    def _total(self) -> int:
        return sum(self._totals.values())

    def _remaining(self, rate: float) -> str:
        left = self._total - len(self._seen)
        return f", about {left / rate:.0f} s left" if left > 0 else ""

    def _print(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)
