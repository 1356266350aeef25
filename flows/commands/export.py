"""``tomeflow export``: the warehouse as Parquet files, in a folder or an object store, for other tools to read."""

from __future__ import annotations

import argparse

from data_contracts.errors import ConfigError
from data_contracts.warehouse.connection import EXPORT_FOLDER, TABLES, WAREHOUSE_FILE, export_warehouse, is_begun
from flows.settings import read_settings
from tasks import storage


def export_to(output: str, target: str) -> list[str]:
    """Write every table below ``target`` (a folder or URI) and return the names of the files, each of them whole.

    Raises:
        ConfigError: nothing was digitized into ``output`` yet.
        StorageUnavailable: the warehouse cannot be read, or ``target`` not be written.
    """
    work = read_settings(output).work_folder
    if not is_begun(work):
        raise ConfigError(f"{output} has no warehouse yet: digitize a document into it first.")
    export_warehouse(work / WAREHOUSE_FILE, work / EXPORT_FOLDER)
    names = [f"{table}.parquet" for table in TABLES]
    for name in names:
        storage.write_bytes(storage.join(target, name), (work / EXPORT_FOLDER / name).read_bytes())
    return names


def main(options: argparse.Namespace) -> int:
    """Run ``tomeflow export`` with parsed ``options`` (``output``, ``to``) and return the exit code."""
    for name in export_to(options.output, options.to):
        print(storage.join(options.to, name))
    return 0
