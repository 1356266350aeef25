"""A known error is one line in the log; an unknown one keeps its traceback."""

from __future__ import annotations

import logging

import pytest

from data_contracts.errors import EncryptedDocument
from flows.execution.plain_errors import without_traceback


def logged(error: Exception) -> str:
    logger = logging.Logger("test")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.addFilter(without_traceback)
    try:
        raise error
    except type(error):
        logger.exception("Encountered exception during execution: %r", error)
    return lines[0]


def test_a_known_error_is_one_line_with_its_remedy() -> None:
    assert logged(EncryptedDocument("needs a password: qpdf --decrypt")) == (
        "EncryptedDocument: needs a password: qpdf --decrypt"
    )


@pytest.mark.parametrize("error", [ValueError("odd"), RuntimeError("odder")])
def test_an_unknown_error_keeps_its_traceback(error: Exception) -> None:
    assert "Traceback" in logged(error)
