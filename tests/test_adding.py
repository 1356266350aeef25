"""What the README says under "How to add", done: each from a module outside this repository, and used."""

from __future__ import annotations

import csv
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pymupdf
import pytest
from PIL import Image, ImageDraw
from support.fakes import scripted_pages
from support.readings import blank_page, text_page
from support.sources import scanned_pdf

from data_contracts.config import DigitizeConfig, QualityConfig, ReadingConfig, RenderConfig
from data_contracts.errors import ConfigError, ContractViolated, NotADocument
from data_contracts.quality import suites
from data_contracts.quality.page_facts import gather_page_facts
from data_contracts.result import PageStatus
from models.sr_swa.continuous import continuous_decode
from models.zoo import READERS, load_model
from tasks.publishing.publication import Publication
from tasks.publishing.publish import publish_document
from tasks.publishing.registry import FORMATS, Format
from tasks.publishing.searchable_pdf import SearchablePdfWriter
from tasks.sources.fetch import fetch_document
from tasks.sources.registry import SOURCES
from tasks.sources.render import PageSource
from tasks.sources.scan_digest import scan_digests

ROOT = Path(__file__).parent.parent
PAGES = [text_page(["alpha beta", "gamma"], 1), blank_page(2), text_page(["delta"], 3)]

WORDS_AS_CSV = """
import csv

from data_contracts.formats.writer import PageWriter


class CsvWriter(PageWriter):
    def __init__(self, path, publication, selected):
        self._path = path
        self._words = 0
        path.write_bytes(b"")

    def add(self, page):
        words = [word.text for line in page.lines for word in line.words]
        self._words += len(words)
        with self._path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([page.page_number, word] for word in words or [""])

    def manifest_fields(self):
        return {"words_in_csv": self._words}


def count_pages(path):
    with path.open(encoding="utf-8", newline="") as file:
        return len({row[0] for row in csv.reader(file)})
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a module of a name and a text, in a folder of its own, and imports it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def add(name: str, text: str) -> ModuleType:
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        return import_module(name)

    return add


def test_a_format_from_outside_is_written_and_counted(
    added: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = added("tomeflow_words_as_csv", WORDS_AS_CSV)
    monkeypatch.setitem(FORMATS, "csv", Format("csv", "words.csv", words.CsvWriter, words.count_pages))
    book = fetch_document(str(scanned_pdf(tmp_path / "book.pdf", 3)), tmp_path / "spool")
    config = DigitizeConfig(formats=("csv", "txt"))
    publication = Publication(*book, lambda: iter(PAGES))
    manifest = publish_document(publication, tmp_path / "out", config.formats, {}, {})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["document.txt", "manifest.json", "words.csv"]
    assert list(manifest["files"]) == ["document.txt", "words.csv"]
    assert manifest["words_in_csv"] == 4
    with (tmp_path / "out" / "words.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["1", "alpha"], ["1", "beta"], ["1", "gamma"], ["2", ""], ["3", "delta"]]
    publish_document(publication, tmp_path / "out", ("txt",), {}, {})
    assert not (tmp_path / "out" / "words.csv").exists(), "a later version goes without it"


def test_a_format_that_loses_a_page_is_not_published(added: Any, tmp_path: Path, monkeypatch: Any) -> None:
    words = added("tomeflow_words_that_lose", WORDS_AS_CSV.replace('words or [""]', "words"))
    monkeypatch.setitem(FORMATS, "csv", Format("csv", "words.csv", words.CsvWriter, words.count_pages))
    book = fetch_document(str(scanned_pdf(tmp_path / "book.pdf", 3)), tmp_path / "spool")
    with pytest.raises(ContractViolated, match=r"words\.csv holds 2 pages, 3 were written"):
        publish_document(Publication(*book, lambda: iter(PAGES)), tmp_path / "out", ("csv",), {}, {})
    assert not (tmp_path / "out").exists()


def test_a_format_that_nobody_added_is_refused_and_the_form_offers_those_there_are(monkeypatch: Any) -> None:
    from prefect.utilities.callables import parameter_schema

    from flows.commands.cli import main
    from flows.digitize import digitize_document
    from flows.ingest_archive import ingest_archive

    assert main(["run", "no such file.pdf", "--format", "txt,epub"]) == ConfigError.exit_code
    for given in ({"formats": ["epub"]}, DigitizeConfig(formats=("epub",))):
        with pytest.raises(ConfigError, match=r"no 'epub'; there are txt, pdf, jsonl\."):
            digitize_document.validate_parameters({"source": "x.pdf", "config": given})
    monkeypatch.setitem(FORMATS, "csv", FORMATS["txt"])
    for flow in (digitize_document, ingest_archive):
        offered = parameter_schema(flow).definitions["DigitizeConfig"]["properties"]["formats"]["items"]["enum"]
        assert offered == ["txt", "pdf", "jsonl", "csv"]


def test_a_check_from_outside_accuses_a_page(added: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    line = 'Check("page is not crowded", "characters", "critical", maximum=10)'
    crowded = added("tomeflow_crowded", f"from data_contracts.quality.suites import Check\n\nCHECK = {line}\n").CHECK
    as_shipped = suites.page_checks
    monkeypatch.setattr(suites, "page_checks", lambda quality: (*as_shipped(quality), crowded))
    outcomes = {one.expectation: one for one in suites.evaluate_pages(gather_page_facts(PAGES), QualityConfig())}
    said = outcomes["page is not crowded"]
    assert (said.success, said.severity) == (False, "critical")
    assert [(page.page_number, page.reason) for page in said.pages] == [(1, "characters 14 is above 10")]


PAGE_NUMBERS = """
from support.fakes import ScriptedModel


def load(reading):
    return ScriptedModel(fingerprint=f"page numbers at {reading.render.dpi} dpi")
"""


def test_a_reader_from_outside_reads_a_page(added: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.utilities.callables import parameter_schema

    from flows.commands.cli import main
    from flows.digitize import digitize_document

    added("tomeflow_page_numbers", PAGE_NUMBERS)
    monkeypatch.setitem(READERS, "page-numbers", "tomeflow_page_numbers:load")
    config = DigitizeConfig(reading=ReadingConfig(model="page-numbers", render=RenderConfig(dpi=100)))
    assert digitize_document.validate_parameters({"source": "x.pdf", "config": config})["config"] == config
    model = load_model(config.reading)
    assert model.fingerprint == "page numbers at 100 dpi"
    results = list(continuous_decode(scripted_pages(3), model, config.reading.sr_swa))
    assert [(result.page_number, result.status) for result in results] == [(n, PageStatus.TEXT) for n in (1, 2, 3)]
    offered = parameter_schema(digitize_document).definitions["ReadingConfig"]["properties"]["model"]["enum"]
    assert offered == ["compact", "unlimited-ocr", "vision-language", "page-numbers"]
    with pytest.raises(ConfigError, match="no 'crystal-ball'; there are compact,"):
        load_model(ReadingConfig(model="crystal-ball"))
    assert main(["backfill", "-o", "nowhere", "--set", "model=crystal-ball"]) == ConfigError.exit_code


def test_knowing_the_names_of_formats_and_readers_loads_no_network() -> None:
    told = "import sys, flows.execution.parameters as p; print('torch' in sys.modules, 'pymupdf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


LIST_OF_IMAGES = """
from hashlib import sha256

import numpy as np
from PIL import Image

from tasks.sources.page_images import Frame
from tasks.sources.protocol import Examined, SourceKind


class ListSource(SourceKind):
    name = "list"

    @classmethod
    def recognises(cls, path):
        return path.is_file() and path.read_bytes().startswith(b"#pages")

    def image_pages(self):
        return [Frame(self.path.parent / name) for name in self.path.read_text().splitlines()[1:]]

    def examine(self, asked):
        return Examined(self.path, len(self.image_pages()))

    def pixels(self, page_number, choose_dpi):
        with Image.open(self.image_pages()[page_number - 1].path) as image:
            size_pt = (image.width * 72 / 200, image.height * 72 / 200)
            dpi = choose_dpi(200.0, 200.0, size_pt)
            return None if dpi is None else (np.array(image.convert("RGB")), dpi)

    def scan_digests(self, page_numbers):
        return {n: sha256(self.image_pages()[n - 1].path.read_bytes()).hexdigest() for n in page_numbers}
"""


def test_a_kind_of_source(added: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "book.list").write_text("#pages\nsecond.png\nfirst.png\n")
    with pytest.raises(NotADocument):
        fetch_document(str(tmp_path / "book.list"), tmp_path / "spool")
    monkeypatch.setitem(SOURCES, "list", added("tomeflow_list_of_images", LIST_OF_IMAGES).ListSource)
    for name, width in (("first", 400), ("second", 500)):
        image = Image.new("L", (width, 600), 255)
        ImageDraw.Draw(image).text((50, 50), name, fill=0)
        image.save(tmp_path / f"{name}.png", dpi=(200, 200))
    document, path = fetch_document(str(tmp_path / "book.list"), tmp_path / "spool")
    assert (document.kind, document.page_count, path) == ("list", 2, tmp_path / "book.list")
    with PageSource(path, document.kind, RenderConfig()) as source:
        assert [source.render(number).pixels.shape for number in (1, 2)] == [(600, 500, 3), (600, 400, 3)]
    assert len(set(scan_digests(path, document.kind, [1, 2]).values())) == 2
    pages = [text_page(["second"], 1, (500, 600)), text_page(["first"], 2, (400, 600))]
    publish_document(Publication(document, path, lambda: iter(pages)), tmp_path / "out", ("txt", "jsonl"), {}, {})
    assert (tmp_path / "out" / "document.txt").read_text() == "second\n\ffirst\n"
    writer = SearchablePdfWriter(path, document.kind, [1, 2], tmp_path / "document.pdf", document.sha256)
    for page in pages:
        writer.add(page)
    writer.finish()
    with pymupdf.open(tmp_path / "document.pdf") as pdf:
        assert [(page.get_text().strip(), round(page.rect.width)) for page in pdf] == [("second", 180), ("first", 144)]
