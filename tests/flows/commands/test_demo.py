from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from flows.commands import demo

DOCUMENT = {
    "id": "sample-0123456789ab",
    "output": "out/sample-0123456789ab",
    "pages": 3,
    "status_counts": {"text": 2, "blank": 1, "failed": 0, "truncated": 0},
    "seconds": 4.4,
    "pages_per_second": 0.682,
    "peak_memory_bytes": 512_000_000,
    "published": True,
}
SCORES = {"cer": 0.0123, "wer": 0.0456, "characters": 12345}


@pytest.fixture
def scripted_command(tmp_path, monkeypatch):
    """A stand-in for the command `tomeflow`: notes its arguments, prints what the real one would."""
    script = tmp_path / "tomeflow"
    answers = {"sample": "", "run": json.dumps({"documents": [DOCUMENT]}), "eval": json.dumps(SCORES)}
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        f'[ "$1" = "$(cat {tmp_path}/fails 2>/dev/null)" ] && exit 13\n'
        "case $1 in\n" + "".join(f"{name}) echo '{answer}';;\n" for name, answer in answers.items()) + "esac\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(demo, "COMMAND", script)
    return tmp_path


def test_the_table_says_what_came_out_and_where_it_lies(scripted_command, capsys):
    assert demo.main(["--pages", "3"]) == 0
    table = capsys.readouterr().out
    for expected in ("3 (2 text, 1 blank)", "1.23% of 12,345 characters", "4.56%", "0.68 pages/s", "512 MB"):
        assert expected in table
    for name in ("document.txt", "document.pdf", "pages.jsonl", "report.html", "manifest.json"):
        assert str(Path(DOCUMENT["output"]) / name) in table
    calls = (scripted_command / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["sample", "run", "eval"]
    assert "--pages 3" in calls[0]
    assert f"--document {DOCUMENT['id']}" in calls[2]


@pytest.mark.parametrize("command", ["sample", "run", "eval"])
def test_a_command_that_fails_ends_the_demonstration_with_its_code(scripted_command, capsys, command):
    (scripted_command / "fails").write_text(command)
    assert demo.main([]) == 13
    assert capsys.readouterr().out == ""


def test_only_programs_that_are_missing_are_named(monkeypatch, tmp_path):
    (tmp_path / "pdftotext").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    table = demo.describe(DOCUMENT, SCORES)
    assert "tesseract-ocr lets" in table
    assert "poppler-utils" not in table
