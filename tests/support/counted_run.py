"""``scripted_run`` or an ingestion that counts: ``python -m support.counted_run SOURCE OUTPUT CONFIG``.

SOURCE is a document or a folder of documents. On stdout: how often each file below the work folder was opened for
reading by storage, by its path in there, and how often the warehouse was exported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from support.scripted_run import TIMEOUT_S, environment


def counted(source: Path, output: Path, folder: Path, prefect_url: str, **config: Any) -> tuple[dict[str, int], int]:
    """Return the counts of reads by path, and of exports; the script lies in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-m", "support.counted_run", str(source), str(output), json.dumps(config)],
        env=environment(folder, prefect_url),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    reads, exports = json.loads(done.stdout.splitlines()[-1])
    return reads, exports


def main(source: str, output: str, config: str) -> None:
    from fsspec.implementations.local import LocalFileSystem

    from data_contracts.config import DigitizeConfig
    from flows.digitize import digitize_document
    from flows.execution import exports
    from flows.execution.outcome import report_of
    from flows.ingest_archive import ingest_archive

    work = Path(output).resolve() / ".tomeflow"
    reads: Counter[str] = Counter()
    exported: list[Path] = []
    as_it_is, export = LocalFileSystem._open, exports.export_warehouse

    def opened(self: Any, path: str, mode: str = "rb", *arguments: Any, **options: Any) -> Any:
        if mode == "rb" and work in Path(path).parents:
            reads[str(Path(path).relative_to(work))] += 1
        return as_it_is(self, path, mode, *arguments, **options)

    def exporting(path: Path, folder: Path) -> None:
        exported.append(folder)
        export(path, folder)

    LocalFileSystem._open = opened
    exports.export_warehouse = exporting
    flow = ingest_archive if Path(source).is_dir() else digitize_document
    report_of(flow, source, output, DigitizeConfig.model_validate_json(config))
    print(json.dumps([reads, len(exported)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
