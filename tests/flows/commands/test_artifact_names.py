"""What a person sees of a name in the UI is that name: whatever is in it, it is no markup."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from data_contracts.document import DocumentRef
from data_contracts.result import DocumentReport
from data_contracts.warehouse.archive import ArchiveObject, ArchiveReport, ArchiveStatus
from flows.execution import artifacts, outcome
from flows.execution.artifacts import one_line, plain
from flows.settings import SERVED_OUTPUT_NAME

HOSTILE = [
    "book\n\n# A heading\n\n[click](http://evil.example)",
    "book\r\n- a list\r- another",
    "book\u2028# separated\u2029by others\x85and\x0bmore\x0c",
    "`code`` and ```more",
    "`",
    "a`[b](http://evil.example)`c",
    "a | b | c",
    "\\`\\|\\",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "![picture](http://evil.example/x.png)",
    "](http://evil.example) [",
    "http://evil.example/ www.evil.example",
    "**bold** _soft_ ~~gone~~ &lt;b&gt; &#60;b&#62;",
    "invoice\u202efdp.exe",
    "nul\x00 and bell\x07",
    "    indented",
    "> quoted",
    "1. counted",
    "---",
    "",
    " ",
]
# What the pages that tomeflow writes consist of, and nothing that a name could have brought.
OURS = {"heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item", "inline"}
INLINE = {"text", "code_inline", "softbreak"}
RENDERER = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def tokens(markdown: str) -> list[Token]:
    return RENDERER.parse(markdown)


def inline(markdown: str) -> list[Token]:
    return [child for token in tokens(markdown) for child in token.children or ()]


def kinds(found: list[Token]) -> set[str]:
    return {re.sub("_(open|close)$", "", token.type) for token in found}


def assert_only_ours(markdown: str) -> None:
    assert kinds(tokens(markdown)) <= OURS
    assert kinds(inline(markdown)) <= INLINE | {"link"}
    targets = [str(token.attrs["href"]) for token in inline(markdown) if token.type == "link_open"]
    assert all(target.startswith("http://127.0.0.1:4200/tomeflow/files/") for target in targets)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["# {}", "| source | {} |", "- page 1: {}", "12 pages of {}", "{}"])
def test_a_name_is_one_piece_of_code_wherever_it_stands(name: str, place: str) -> None:
    markdown = place.format(plain(name))
    if place.startswith("|"):
        markdown = f"| | |\n|---|---|\n{markdown}"
    pieces = [token for token in inline(markdown) if token.type == "code_inline"]
    assert len(pieces) == 1
    assert kinds(inline(markdown)) <= INLINE
    assert "\n" not in plain(name)
    assert kinds(tokens(markdown)) <= OURS


def test_an_ordinary_name_stays_as_it_is() -> None:
    for name in ("Œuvres complètes, t. 2.pdf", "2024_report-final (1).pdf", "本の名前.pdf", "کتاب\u200cها.pdf"):
        assert plain(name) == f"`{name}`"
        assert one_line(name) == name


@pytest.mark.parametrize("name", HOSTILE)
def test_the_summary_of_a_document_has_no_markup_but_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "book"
    folder.mkdir()
    file_name = name.replace("/", "-").replace("\0", "").strip() or "book"
    (folder / file_name).write_text("")
    monkeypatch.setenv(SERVED_OUTPUT_NAME, str(tmp_path))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    document = DocumentRef(document_id="book-0", uri=f"/scans/{name}", sha256="0" * 64, page_count=1, kind="pdf")
    report = DocumentReport(
        id="book",
        output=str(folder),
        pages=1,
        status_counts={"text": 1},
        seconds=1,
        pages_per_second=1,
        peak_memory_bytes=1,
        published=True,
    )
    markdown = artifacts._summary(document, report, {1: name})
    assert_only_ours(markdown)
    links = [token for token in inline(markdown) if token.type == "link_open"]
    assert len(links) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_the_page_of_an_archive_has_no_markup_but_its_own(name: str) -> None:
    seen = ArchiveObject(
        prefix="inbox",
        name=name or "x",
        uri=f"inbox/{name}",
        version="1",
        status=ArchiveStatus.FAILED,
        attempts=1,
        run_id="1",
        changed_at=datetime.now(UTC),
        reason=f"{name} is no document",
        exit_code=13,
    )
    report = ArchiveReport.model_construct(
        prefix=f"inbox/{name}", published=0, unchanged=0, failed=1, not_a_document=0, gone=(name,), objects=(seen,)
    )
    assert_only_ours(outcome._archive_page(report, [seen], [seen], f"out/{name}"))
