"""Some pages of a PDF with all of the document that is about them, written by qpdf; no stream is decoded.

The document stays and pages are taken out of it, so that what belongs to it as a whole stays by itself:
attachments, language, XMP, viewer preferences, layers, output intents. What names single pages follows the pages:
labels, outline, named destinations, links, form fields, tags. What cannot be kept is returned in words.
Source: ISO 32000-1, 7.7, 12.3, 12.4, 12.7.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pikepdf
from pikepdf import Array, Dictionary, Name, String

from tasks.publishing.pdf_tags import DEEPEST_LEVEL, ObjectId, keep_tags_of, leaves
from tasks.sources.pdf.repair import VERBATIM

Target = Literal["kept", "gone", "elsewhere"]


class NotSelectable(Exception):
    """Pages of the file cannot be told apart, so that another way has to be taken."""


class _Output(io.RawIOBase):
    """A file for qpdf, which ends the process where writing fails: the fault is kept until qpdf is done."""

    def __init__(self, file: io.RawIOBase) -> None:
        """Write to ``file``."""
        self._file = file
        self._fault: OSError | None = None

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Write all of ``data`` unless something failed before."""
        view, done = memoryview(data), 0
        while self._fault is None and done < len(view):
            try:
                done += self._file.write(view[done:]) or 0
            except OSError as error:
                self._fault = error
        return len(view)

    def raise_fault(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._fault is not None:
            raise self._fault


def copy_selected(source: Path, selected: Sequence[int], page_count: int, target: Path) -> list[str]:
    """Write the pages ``selected`` (1-based, ascending) of ``source``, which has ``page_count``; return what goes.

    Raises:
        NotSelectable: qpdf finds other pages than MuPDF, which has counted them.
        OSError: there is no room.
    """
    try:
        with pikepdf.open(source, suppress_warnings=True) as pdf:
            if len(pdf.pages) != page_count:
                raise NotSelectable(f"{len(pdf.pages)} pages instead of {page_count}")
            gone = _Selection(pdf, selected).apply()
            with target.open("wb", buffering=0) as file:
                output = _Output(file)
                pdf.save(cast(BinaryIO, output), encryption=False, fix_metadata_version=False, **VERBATIM)
            output.raise_fault()
    except (pikepdf.PdfError, RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise NotSelectable(str(error)) from error  # a damaged object was not of the kind that it has to be
    return gone


class _Selection:
    """Takes the other pages out of an open PDF."""

    def __init__(self, pdf: pikepdf.Pdf, selected: Sequence[int]) -> None:
        self._pdf = pdf
        self._selected = list(selected)
        pages = [page.obj for page in pdf.pages]
        kept = set(selected)
        self._kept_pages = [page for number, page in enumerate(pages, start=1) if number in kept]
        self._gone_pages = [page for number, page in enumerate(pages, start=1) if number not in kept]
        self._kept: set[ObjectId] = {page.objgen for page in self._kept_pages}
        self._gone: set[ObjectId] = {page.objgen for page in self._gone_pages}
        self._gone_annotations = {a.objgen for page in self._gone_pages for a in _annotations(page)} - {(0, 0)}
        self._named = self._named_destinations()

    def apply(self) -> list[str]:
        """Do it and return what goes, in words."""
        self._select_labels()
        self._select_outline()
        said = [*self._select_links(), *self._select_fields(), *self._select_the_rest()]
        self._select_named_destinations()
        said += keep_tags_of(self._pdf, self._gone, self._gone_annotations)
        self._take_out_pages()
        return said

    def _take_out_pages(self) -> None:
        """Take the pages out of the tree, and empty them: nothing that still names one keeps its content."""
        for index in reversed(range(len(self._pdf.pages))):
            if self._pdf.pages[index].obj.objgen in self._gone:
                del self._pdf.pages[index]
        for page in self._gone_pages:
            for key in list(page.keys()):
                del page[key]

    def _select_labels(self) -> None:
        if "/PageLabels" not in self._pdf.Root:
            return
        ranges = sorted((int(start), label) for start, label in leaves(self._pdf.Root.PageLabels, "/Nums"))
        numbers: list[Any] = []
        following: tuple[int, int] | None = None
        for index, number in enumerate(self._selected):
            begun = [entry for entry in enumerate(ranges) if entry[1][0] < number]
            if not begun:
                continue
            place, (start, label) = begun[-1]
            value = int(label.get("/St", 1)) + number - 1 - start
            if following != (place, value):
                own = Dictionary({key: label[key] for key in ("/S", "/P") if key in label})
                own.St = value
                numbers += [index, own]
            following = (place, value + 1)
        self._pdf.Root.PageLabels = Dictionary(Nums=Array(numbers))

    def _named_destinations(self) -> dict[str, Any]:
        root = self._pdf.Root
        named = {key[1:]: value for key, value in root.get("/Dests", Dictionary()).items()}
        if "/Names" in root and "/Dests" in root.Names:
            named |= {str(key): value for key, value in leaves(root.Names.Dests, "/Names")}
        return named

    def _target(self, destination: Any, level: int = 0) -> Target:
        """Return where a destination, or the name of one, leads."""
        if isinstance(destination, Dictionary):
            destination = destination.get("/D")
        if isinstance(destination, Name | String):
            name = str(destination)[1:] if isinstance(destination, Name) else str(destination)
            found = self._named.get(name)
            return "elsewhere" if found is None or level > 1 else self._target(found, level + 1)
        if not isinstance(destination, Array) or not len(destination):
            return "elsewhere"
        page = destination[0]
        if isinstance(page, Dictionary):
            return "kept" if page.objgen in self._kept else "gone" if page.objgen in self._gone else "elsewhere"
        return "elsewhere"

    def _leads(self, item: Any) -> Target:
        """Return where an outline entry or an annotation leads."""
        if "/Dest" in item:
            return self._target(item.Dest)
        action = item.get("/A")
        if isinstance(action, Dictionary) and action.get("/S") == Name.GoTo:
            return self._target(action.get("/D"))
        return "elsewhere"

    def _select_outline(self) -> None:
        outline = self._pdf.Root.get("/Outlines")
        if isinstance(outline, Dictionary):
            self._link_entries(outline, self._kept_entries(outline, set(), 0))

    def _kept_entries(self, parent: Any, seen: set[ObjectId], level: int) -> list[Any]:
        """Return the entries below ``parent`` that stay, those below them linked anew already."""
        kept = []
        entry = parent.get("/First")
        while isinstance(entry, Dictionary) and entry.objgen not in seen and level < DEEPEST_LEVEL:
            seen.add(entry.objgen)
            leads, following = self._leads(entry), entry.get("/Next")
            below = self._kept_entries(entry, seen, level + 1)
            was_heading = leads == "elsewhere" and "/First" in entry and "/Dest" not in entry and "/A" not in entry
            if below or not (leads == "gone" or was_heading):
                self._link_entries(entry, below)
                if leads == "gone":
                    _forget(entry, "/Dest", "/A")
                kept.append(entry)
            entry = following
        return kept

    def _link_entries(self, parent: Any, entries: list[Any]) -> None:
        """Make ``entries`` all that lies below ``parent``, open or closed as it was."""
        is_open = int(parent.get("/Count", 0)) > 0 or parent.get("/Type") == Name.Outlines
        _forget(parent, "/First", "/Last", "/Count")
        for entry, before, after in zip(entries, [None, *entries], [*entries[1:], None], strict=False):
            _forget(entry, "/Prev", "/Next")
            entry.Parent = parent
            if before is not None:
                entry.Prev = before
            if after is not None:
                entry.Next = after
        if entries:
            count = sum(1 + max(int(entry.get("/Count", 0)), 0) for entry in entries)
            parent.First, parent.Last, parent.Count = entries[0], entries[-1], count if is_open else -count

    def _select_links(self) -> list[str]:
        """Let links to pages that go lead nowhere; they look as they did."""
        dead = 0
        for page in self._kept_pages:
            for annotation in _annotations(page):
                if self._leads(annotation) == "gone":
                    _forget(annotation, "/Dest", "/A")
                    dead += 1
        return [f"links to pages that are left out ({dead})"] if dead else []

    def _select_named_destinations(self) -> None:
        root = self._pdf.Root
        if "/Dests" in root:
            _forget(root.Dests, *[key for key, value in root.Dests.items() if self._target(value) == "gone"])
        if "/Names" in root and "/Dests" in root.Names:
            pairs = [(key, value) for key, value in leaves(root.Names.Dests, "/Names") if self._target(value) != "gone"]
            root.Names.Dests = Dictionary(Names=Array([part for pair in pairs for part in pair]))

    def _select_fields(self) -> list[str]:
        form = self._pdf.Root.get("/AcroForm")
        if not isinstance(form, Dictionary):
            return []
        if isinstance(form.get("/Fields"), Array):
            form.Fields = Array([field for field in form.Fields if self._keep_field(field, set(), 0)])
        if isinstance(form.get("/CO"), Array):
            form.CO = Array([field for field in form.CO if field.objgen not in self._gone_annotations])
        if "/XFA" in form:
            _forget(form, "/XFA")
            return ["the XFA form, which describes all pages; its fields are kept as plain ones"]
        return []

    def _keep_field(self, field: Any, seen: set[ObjectId], level: int) -> bool:
        """Return whether a field lies on a page that stays, or on none; of one on several it keeps those alone."""
        if not isinstance(field, Dictionary) or level > DEEPEST_LEVEL or field.objgen in seen - {(0, 0)}:
            return False
        seen.add(field.objgen)
        kids = field.get("/Kids")
        if isinstance(kids, Array) and len(kids):
            kept = [kid for kid in kids if self._keep_field(kid, seen, level + 1)]
            field.Kids = Array(kept)
            return bool(kept)
        page = field.get("/P")
        is_on_a_page_that_goes = isinstance(page, Dictionary) and page.objgen in self._gone
        return field.objgen not in self._gone_annotations and not is_on_a_page_that_goes

    def _select_the_rest(self) -> list[str]:
        """Take away what leads through pages that go."""
        root, said = self._pdf.Root, []
        opening = root.get("/OpenAction")
        if isinstance(opening, Array | Dictionary) and self._target(opening) == "gone":
            _forget(root, "/OpenAction")
            said.append("the page at which the document opens")
        if "/Threads" in root:
            _forget(root, "/Threads")
            for page in self._kept_pages:
                _forget(page, "/B")
            said.append("article threads")
        return said


def _annotations(page: Any) -> list[Any]:
    annotations = page.get("/Annots")
    return [a for a in annotations if isinstance(a, Dictionary)] if isinstance(annotations, Array) else []


def _forget(dictionary: Any, *keys: str) -> None:
    for key in keys:
        if key in dictionary:
            del dictionary[key]
