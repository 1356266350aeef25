"""Files, modules, settings and headings that the documents name are there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOOR = (ROOT / "README.md").read_text()
CONTRACTS = (ROOT / "data_contracts" / "README.md").read_text()

DOCUMENTS = {
    # What a newcomer is to add is held to what is there by the test that adds it.
    "README.md": re.sub(r"\n## How to add\n.*?(?=\n## )", "", DOOR, flags=re.DOTALL),
    **{
        name: (ROOT / name).read_text()
        for name in (
            "CHANGELOG.md",
            "data_contracts/README.md",
            "deployments/README.md",
            "models/README.md",
            "models/compact/decode/weights/README.md",
            "models/training/log.md",
        )
    },
}
ROOMS = ("flows", "tasks", "models", "data_contracts", "deployments", "tests", "..")
OURS = (".py", ".md", ".yaml", ".sql", ".sh", ".toml")
"""Suffixes of files that tomeflow does not publish: a name with one of these is meant to be of this repository."""
SETTING = re.compile(r"(?:reading\.)?((?:render|sr_swa|compact|vlm|quality)\.\w+)(?:=.*)?")


def named_files(text: str) -> set[str]:
    """Return what looks like a file or folder of this repository, in backticks or as the target of a link."""
    quoted = re.findall(r"`([\w./*<>-]+)`", text)
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if ":" not in link]
    in_rooms = {name for name in quoted if name.split("/")[0] in ROOMS and "/" in name}
    return in_rooms | {name for name in (*quoted, *links) if name.endswith(OURS)}


def is_there(name: str, document: str) -> bool:
    """Tell whether ``name`` is a file or a folder, seen from the root or from beside the document."""
    beside = (ROOT / document).parent
    if "*" in name:
        return any(ROOT.glob(name)) or any(beside.glob(name))
    return (ROOT / name).exists() or (beside / name).exists()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_are_there(document: str) -> None:
    names = named_files(DOCUMENTS[document])
    assert names or document == "CHANGELOG.md"
    assert not sorted(name for name in names if not is_there(name, document))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_to_be_run_are_there(document: str) -> None:
    modules = set(re.findall(r"python -m (\w[\w.]*\w)", DOCUMENTS[document]))
    assert not sorted(name for name in modules if find_spec(name) is None)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_settings_that_are_named_are_in_the_table(document: str) -> None:
    named = re.findall(r"`([^`\n]+)`", DOCUMENTS[document])
    settings = {found[1] for word in named for part in word.split() if (found := SETTING.fullmatch(part))}
    assert not sorted(setting for setting in settings if f"{setting}`" not in CONTRACTS)


def titles_of(document: Path) -> list[str]:
    """Return the headings of a document; what stands in its examples is none."""
    return re.findall(r"^#+ (.+)", "".join(document.read_text().split("```")[::2]), re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_headings_lead_somewhere(document: str) -> None:
    for file, anchor in re.findall(r"\]\(([\w./]*)#([^)]+)\)", DOCUMENTS[document]):
        titles = titles_of((ROOT / document).parent / file if file else ROOT / document)
        assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_heading_comes_twice(document: str) -> None:
    titles = titles_of(ROOT / document)
    assert titles
    assert document == "CHANGELOG.md" or len(titles) == len(set(titles))
