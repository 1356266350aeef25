"""Known errors without a traceback: they say what happened and what to do, so a stack would only hide that."""

from __future__ import annotations

import logging

from data_contracts.errors import TomeflowError

_PREFECT_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


def without_traceback(record: logging.LogRecord) -> bool:
    """Let every record pass; take the traceback off one that reports a ``TomeflowError``."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, TomeflowError):
        record.exc_info = record.exc_text = None
        record.msg, record.args = f"{type(error).__name__}: {error}", ()
    return True


def log_known_errors_plainly() -> None:
    """Have Prefect's run loggers report known errors in one line."""
    for name in _PREFECT_LOGGERS:
        logging.getLogger(name).addFilter(without_traceback)
