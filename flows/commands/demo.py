"""What ``make run`` shows: a sample book drawn, digitized and compared with its truth, by the commands a user types."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SAMPLE = Path("sample/sample.pdf")
OUTPUT = Path("out")
COMMAND = Path(sys.executable).with_name("tomeflow")

FILES = {
    "document.txt": ("plain text, a form feed between pages", "less {path}"),
    "document.pdf": ("the scan with invisible text to select and search", "open it in any PDF viewer"),
    "pages.jsonl": ("lines, words, boxes, confidences, status; a page a line", "head -1 {path} | python3 -m json.tool"),
    "report.html": ("the verdict, every page in plots, the lines read with least confidence", "open it in any browser"),
    "manifest.json": ("digests of these files, configuration, versions", "less {path}"),
}
OPTIONAL_PROGRAMS = {
    "tesseract": ("tesseract-ocr", "lets `tomeflow bench readers` and `tomeflow eval --truth second-reader` compare"),
    "pdftotext": (
        "poppler-utils",
        "shows the text layer of document.pdf; some tests check it with that",
    ),
    "chromium": ("chromium", "is the browser of the end-to-end tests"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the three commands and print the table; return the exit code of the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m flows.commands.demo", description=__doc__)
    parser.add_argument("--pages", type=int, default=12)
    pages = str(parser.parse_args(arguments).pages)
    try:  # --fresh, so that the speed shown is a speed measured
        _run("sample", "--pages", pages, "--seed", "1", "-o", str(SAMPLE))
        document = json.loads(_run("run", str(SAMPLE), "-o", str(OUTPUT), "--fresh", "--json"))["documents"][0]
        truth = str(SAMPLE.with_suffix(".truth"))
        scores = json.loads(_run("eval", str(OUTPUT), "--truth", truth, "--document", document["id"], "--json"))
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print(describe(document, scores))
    return 0


def describe(document: dict[str, Any], scores: dict[str, Any]) -> str:
    """Return the closing table for one entry of ``tomeflow run --json`` and the object of ``tomeflow eval --json``."""
    statuses = ", ".join(f"{count} {status}" for status, count in document["status_counts"].items() if count)
    lines = [
        "",
        f"  pages             {document['pages']} ({statuses})",
        f"  character errors  {scores['cer']:.2%} of {scores['characters']:,} characters, against the sample's truth",
        f"  word errors       {scores['wer']:.2%}",
        f"  speed             {document['pages_per_second']:.2f} pages/s, {document['seconds']:.0f} s in all",
        f"  memory            {document['peak_memory_bytes'] / 1e6:.0f} MB at most",
        "",
    ]
    for name, (what, look) in FILES.items():
        path = Path(document["output"]) / name
        lines += [f"  {path}", f"      {what}: {look.format(path=path)}"]
    lines += ["", f"  Your own scans: {_shown(COMMAND)} run BOOK.pdf -o {OUTPUT}", *_missing_programs()]
    return "\n".join(lines)


def _run(*arguments: str) -> str:
    """Run one tomeflow command, shown as a user would type it, and return what it prints."""
    print("$", _shown(COMMAND), *arguments, file=sys.stderr, flush=True)
    return subprocess.run([COMMAND, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _missing_programs() -> list[str]:
    missing = [entry for program, entry in OPTIONAL_PROGRAMS.items() if shutil.which(program) is None]
    if not missing:
        return []
    return ["", "  Not needed, but of use (system packages):", *(f"      {name} {adds}" for name, adds in missing)]


if __name__ == "__main__":
    sys.exit(main())
