"""Checkpoints: small JSON files, each under its key, that point with sha256 to what a step has made.

KVCache when what they point to is complete, in one piece, and with a digest of their own: a checkpoint that
is there and verifies is true, on a local disk and in an object store alike. Any other counts as absent.
"""

from __future__ import annotations

import json
import logging
from typing import TypeVar

from pydantic import BaseModel

from tasks import storage

logger = logging.getLogger("tomeflow.checkpoint")

RESULTS_FOLDER = "results"

Record = TypeVar("Record", bound=BaseModel)


def write_checkpoint(root: str, key: str, record: BaseModel) -> None:
    """Put ``record`` under ``key`` below ``root``, replacing what was there.

    Raises:
        StorageUnavailable: it could not be written; whoever made what it points to has not finished.
    """
    content = {"sha256": _digest(record), "record": record.model_dump(mode="json")}
    storage.write_bytes(_place(root, key), json.dumps(content, ensure_ascii=False).encode())


def read_checkpoint(root: str, key: str, kind: type[Record]) -> Record | None:
    """Return what lies under ``key``; None if there is nothing, or it is damaged, which is said in the log.

    Raises:
        StorageUnavailable: storage does not answer.
    """
    place = _place(root, key)
    try:
        content = json.loads(storage.read_bytes(place))
        record = kind.model_validate(content["record"])
        if content["sha256"] == _digest(record):
            return record
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):  # cut off, not JSON, or of another schema
        pass
    logger.warning("%s is damaged; what it stood for is rebuilt", place)
    return None


def delete_checkpoint(root: str, key: str) -> None:
    """Have nothing lie under ``key``, whether something did or not.

    Raises:
        StorageUnavailable: storage does not answer.
    """
    storage.delete(_place(root, key))


def _place(root: str, key: str) -> str:
    return storage.join(root, RESULTS_FOLDER, key)


def _digest(record: BaseModel) -> str:
    return storage.sha256_bytes(record.model_dump_json().encode())
