"""Every error that tomeflow raises on purpose, in one tree.

::

    TomeflowError                     exit code 1
    |-- ConfigError                   2   a parameter is wrong; lists all wrong fields at once
    |-- BatchFailed                   3   several documents failed, for different causes
    |-- UnreadableDocument            10  the source cannot be read as a document
    |   |-- EncryptedDocument         11
    |   |-- EmptyDocument             12  no pages
    |   |-- NotADocument              13  neither a PDF nor an image
    |   `-- TooCostlyDocument         14  to open or copy it takes more time or memory than a document may
    |-- PageFailed                    20  at least one page has no reading
    |   |-- RenderFailed              21
    |   |-- DecodeFailed              22
    |   |-- OutOfMemory               23  retryable once, with a smaller window
    |   `-- StepLost                  24  retryable; the process that read a page hung or died
    |-- StateRefused                  30  a reference state that must not be continued from
    |   |-- WrongModel                31
    |   |-- WrongSchema               32
    |   `-- BrokenChecksum            33
    |-- ContractViolated              40  the result breaks a promise; nothing is published
    |   `-- LedgerUnbalanced          41
    |-- StorageUnavailable            50  retryable
    |-- ServerUnavailable             51  retryable; the Prefect server did not come up
    |-- MigrationFailed               52  the Prefect server's database cannot be brought to this version
    `-- ModelUnavailable              60  weights or packages are missing or of another version

A message says what happened, with the numbers that disagree, and what to do about it.
``retryable`` is the only thing that a retry policy asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

INTERRUPTED_EXIT_CODE = 130
"""What a shell gives a process that Ctrl-C ended; no error of ours."""


class TomeflowError(Exception):
    """Root of the tree. ``document`` and ``page_number`` are attached by :func:`page_context`."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        """Keep the message; where it happened is added by whoever knows."""
        super().__init__(message)
        self.message = message
        self.document: str | None = None
        self.page_number: int | None = None

    def __str__(self) -> str:
        """Return the message behind the document and the page it is about."""
        place = [self.document] if self.document else []
        place += [f"page {self.page_number}"] if self.page_number is not None else []
        return f"{', '.join(place)}: {self.message}" if place else self.message


class ConfigError(TomeflowError):
    """A parameter is wrong; the message lists every wrong field."""

    exit_code = 2


class BatchFailed(TomeflowError):
    """Several documents failed, for different causes; each is reported on its own."""

    exit_code = 3


class UnreadableDocument(TomeflowError):
    """The source cannot be read as a document."""

    exit_code = 10


class EncryptedDocument(UnreadableDocument):
    """The document needs a password."""

    exit_code = 11


class EmptyDocument(UnreadableDocument):
    """The document has no pages."""

    exit_code = 12


class NotADocument(UnreadableDocument):
    """The source is neither a PDF nor an image of a known kind."""

    exit_code = 13


class TooCostlyDocument(UnreadableDocument):
    """To open, count or copy the document takes more time or memory than a document may, or kills who does it."""

    exit_code = 14


class PageFailed(TomeflowError):
    """At least one page has no reading."""

    exit_code = 20


class RenderFailed(PageFailed):
    """A page could not be turned into pixels."""

    exit_code = 21


class DecodeFailed(PageFailed):
    """A page could not be read."""

    exit_code = 22


class OutOfMemory(PageFailed):
    """Memory ran out while a page was read."""

    retryable = True
    exit_code = 23


class StepLost(PageFailed):
    """The process that read a page gave no sign of life, or died."""

    retryable = True
    exit_code = 24


class StateRefused(TomeflowError):
    """A reference state that must not be continued from."""

    exit_code = 30


class WrongModel(StateRefused):
    """The state was written by another model, geometry or dtype."""

    exit_code = 31


class WrongSchema(StateRefused):
    """The state has another schema version or lacks a part."""

    exit_code = 32


class BrokenChecksum(StateRefused):
    """The bytes are not the bytes that were written."""

    exit_code = 33


class ContractViolated(TomeflowError):
    """The result breaks a promise; nothing of it is published."""

    exit_code = 40


class LedgerUnbalanced(ContractViolated):
    """The pages that came out are not the pages that went in."""

    exit_code = 41


class StorageUnavailable(TomeflowError):
    """Storage does not answer or has no room."""

    retryable = True
    exit_code = 50


class ServerUnavailable(TomeflowError):
    """The Prefect server did not come up."""

    retryable = True
    exit_code = 51


class MigrationFailed(TomeflowError):
    """The database of the Prefect server cannot be brought to this version."""

    exit_code = 52


class ModelUnavailable(TomeflowError):
    """Weights or packages are missing, damaged or of another version."""

    exit_code = 60


def all_errors(root: type[TomeflowError] = TomeflowError) -> Iterator[type[TomeflowError]]:
    """Yield ``root`` and every error below it."""
    yield root
    for error in root.__subclasses__():
        yield from all_errors(error)


def joint_exit_code(exit_codes: Iterable[int]) -> int:
    """Return 0 if all of ``exit_codes`` are, the cause's own code if there is one cause, else that of several."""
    failures = set(exit_codes) - {0}
    if len(failures) > 1:
        return BatchFailed.exit_code
    return failures.pop() if failures else 0


@contextmanager
def page_context(document: str | None = None, page_number: int | None = None) -> Iterator[None]:
    """Attach the document and the page to any tomeflow error that passes through."""
    try:
        yield
    except TomeflowError as error:
        error.document = error.document or document
        error.page_number = error.page_number or page_number
        raise
