"""``document.pdf``: the original pages, untouched, with an invisible text layer that can be searched and selected.

A PDF is copied byte for byte and the text is appended to it as incremental updates, so that no stream of
the original is ever decoded or written anew. It is rewritten (streams still verbatim) only where a copy
cannot do: a selection of pages, a damaged file that MuPDF repaired, an encrypted file that opens without
a password. Images become pages as ``embedded_image`` says. Equal input gives equal bytes: no dates, no
random identifiers.

A page that has text of its own keeps it where it says what was read, for a second layer would double every word; what
of the reading it lacks is added. Where the old text is something else (a font without meaning, another page's
layer), the reading is written too, and of the old text what nobody sees is taken out. What is seen is never touched.
``text_layers`` says what became of each page.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_contracts.errors import ContractViolated, RenderFailed, UnreadableDocument
from data_contracts.result import Line, PageResult, PageStatus
from tasks.publishing import glyphless_font
from tasks.publishing.embedded_image import add_image_page
from tasks.publishing.invisible_text import remove_invisible_text
from tasks.publishing.old_text_layer import OldWord, TextLayer, compare
from tasks.publishing.text_layer import FONT_RESOURCE, Affine, content_stream, planes_of
from tasks.sources.page_images import Frame
from tasks.sources.pdf.mupdf import POINTS_PER_INCH, add_object, add_stream, load_page, mupdf, save_as_it_is
from tasks.sources.registry import source_of

BATCH_PAGES = 16
"""Pages per incremental update: what is held in memory at once, images included."""

SURE_CONFIDENCE = 0.8
"""A reading less sure than this is no reason to take another reader's text out: it is added beside it."""

OUTSIDE_THE_PAGES = "page labels, outline, attachments, form fields and metadata, since the source is damaged"


class SearchablePdfWriter:
    """Writes ``document.pdf`` page by page; holds at most ``BATCH_PAGES`` readings.

    Invariant: after each batch the file at ``target`` is a complete PDF.
    """

    def __init__(self, source: Path, kind: str, selected: Sequence[int], target: Path, digest: str) -> None:
        """Begin ``target`` with the pages ``selected`` (1-based, ascending) of ``source``.

        ``digest`` is the document's sha256; it becomes the file's identifier where it has none.
        """
        self._target = target
        self._digest = digest
        self.left_out: list[str] = []
        self._frames: list[Frame] | None = None
        frames = source_of(source, kind).image_pages()
        if frames is None:
            self.left_out = _copy_pages(source, selected, target)
        else:
            self._frames = [frames[page_number - 1] for page_number in selected]
        self._batch: list[PageResult] = []
        self._written_pages = 0
        self._font_xrefs: dict[int, int] = {}
        self._descriptor_xref = 0
        self.text_layers: dict[int, TextLayer] = {}
        self.rubbish_pages: list[int] = []
        """Pages on which old text that is not what was read still stands, visible or out of reach."""

    def add(self, page: PageResult) -> None:
        """Append the text of the next selected page; of an image source, the page itself too."""
        self._batch.append(page)
        if len(self._batch) >= BATCH_PAGES:
            self._flush()

    def finish(self) -> None:
        """Write what is left."""
        if self._batch:
            self._flush()

    def manifest_fields(self) -> dict[str, Any]:
        """Return the pages by what became of their text, those where rubbish was left, and what the source alone has.

        What is left out is not mentioned where nothing is.
        """
        pages = {layer: [n for n, found in self.text_layers.items() if found is layer] for layer in TextLayer}
        return {
            "pages_with_own_text": pages[TextLayer.KEPT],
            "pages_with_rubbish_text": self.rubbish_pages,
            "text_layers": {layer.value: numbers for layer, numbers in pages.items() if numbers},
            **({"left_out_of_pdf": self.left_out} if self.left_out else {}),
        }

    def _flush(self) -> None:
        with mupdf() as pymupdf:
            begins = self._frames is not None and not self._written_pages
            document = pymupdf.open() if begins else pymupdf.open(self._target, filetype="pdf")
            try:
                for page in self._batch:
                    self._write_page(pymupdf, document, page)
                _save(pymupdf, document, self._target, self._digest)
            finally:
                document.close()
            _settle(self._target)
            pymupdf.TOOLS.store_shrink(100)
        self._batch.clear()

    def _write_page(self, pymupdf: Any, document: Any, page: PageResult) -> None:
        index = self._written_pages
        self._written_pages += 1
        if self._frames is not None:
            _add_source_page(document, self._frames[index], page)
        if page.status is PageStatus.FAILED:  # nothing is asked of a page that may be what brought its reader down
            self.text_layers[page.page_number] = TextLayer.NONE
            return
        pdf_page = load_page(document, index)
        layer, lines = self._compared_with_own_text(pymupdf, document, pdf_page, page)
        self.text_layers[page.page_number] = layer
        if not lines:
            return
        written = page.model_copy(update={"lines": lines})
        stream = content_stream(written, _to_user_space(pymupdf, pdf_page, page))
        if stream:
            for plane in planes_of(written):
                _add_font_resource(pymupdf, document, pdf_page, plane, self._font(document, plane))
            _prepend_content(document, pdf_page, stream)

    def _compared_with_own_text(
        self, pymupdf: Any, document: Any, pdf_page: Any, page: PageResult
    ) -> tuple[TextLayer, tuple[Line, ...]]:
        """Return what becomes of the page's text and the lines to write; rubbish that nobody sees is taken out."""
        old_words = [] if self._frames is not None else _old_words(pymupdf, pdf_page, page)
        if not page.lines:
            return (TextLayer.KEPT if old_words else TextLayer.NONE), ()
        comparison = compare(page.lines, old_words)
        removed = False
        if comparison.has_rubbish:
            if (page.confidence or 0) >= SURE_CONFIDENCE and (removed := remove_invisible_text(document, pdf_page)):
                comparison = compare(page.lines, _old_words(pymupdf, pdf_page, page))
            if comparison.has_rubbish:
                self.rubbish_pages.append(page.page_number)
        if removed:
            return TextLayer.REPLACED, comparison.missing
        if comparison.is_all_missing:
            return TextLayer.ADDED, comparison.missing
        return (TextLayer.COMPLETED if comparison.missing else TextLayer.KEPT), comparison.missing

    def _font(self, document: Any, plane: int) -> int:
        """Return the object number of the plane's font, written when first asked for."""
        if not self._descriptor_xref:
            font_file = add_stream(document, glyphless_font.font_file())
            self._descriptor_xref = add_object(document, glyphless_font.font_descriptor(font_file))
        if plane not in self._font_xrefs:
            cid_to_gid_map = add_stream(document, glyphless_font.cid_to_gid_map(plane))
            cid_font = glyphless_font.cid_font(plane, self._descriptor_xref, cid_to_gid_map)
            to_unicode = add_stream(document, glyphless_font.to_unicode_map(plane))
            composite = glyphless_font.composite_font(add_object(document, cid_font), to_unicode)
            self._font_xrefs[plane] = add_object(document, composite)
        return self._font_xrefs[plane]


def _copy_pages(source: Path, selected: Sequence[int], target: Path) -> list[str]:
    """Put the selected pages of ``source`` at ``target``: a plain copy where that is possible. Return what goes."""
    with mupdf() as pymupdf, pymupdf.open(source, filetype="pdf") as document:
        page_count = int(document.page_count)
        whole = list(selected) == list(range(1, page_count + 1))
        encrypted = bool((document.metadata or {}).get("encryption"))
        if whole and not encrypted and not document.is_repaired and document.can_save_incrementally():
            shutil.copyfile(source, target)
        elif whole:
            with _disk_errors(pymupdf, target):
                save_as_it_is(document, str(target), encryption=pymupdf.PDF_ENCRYPT_NONE)
        else:
            return _copy_some(pymupdf, document, source, selected, target)
    return []


def _copy_some(pymupdf: Any, document: Any, source: Path, selected: Sequence[int], target: Path) -> list[str]:
    """Do the same for a selection; of a damaged file, pages come without what the document says of them."""
    from tasks.publishing.pdf_structure import NotSelectable, copy_selected

    try:
        return copy_selected(source, selected, int(document.page_count), target)
    except NotSelectable:
        pass
    if all(_opens(document, page_number) for page_number in selected):
        document.select([page_number - 1 for page_number in selected])
        with _disk_errors(pymupdf, target):
            save_as_it_is(document, str(target), encryption=pymupdf.PDF_ENCRYPT_NONE, drop_unreachable=True)
    else:
        _copy_one_by_one(pymupdf, document, selected, target)
    return [OUTSIDE_THE_PAGES]


def _copy_one_by_one(pymupdf: Any, document: Any, selected: Sequence[int], target: Path) -> None:
    """Do the same for a file with pages that cannot be opened: each becomes an empty page in its place.

    Form fields stay as they look; to copy them as fields, PyMuPDF opens every page, also those that cannot be.
    """
    with pymupdf.open() as copy:
        for page_number in selected:
            try:
                load_page(document, page_number - 1)
                copy.insert_pdf(document, from_page=page_number - 1, to_page=page_number - 1, widgets=False)
            except Exception:  # whatever MuPDF met first
                copy.new_page(-1)
        with _disk_errors(pymupdf, target):
            save_as_it_is(copy, str(target), encryption=pymupdf.PDF_ENCRYPT_NONE)


def _opens(document: Any, page_number: int) -> bool:
    try:
        load_page(document, page_number - 1)
    except Exception:  # whatever MuPDF met first
        return False
    return True


def _add_source_page(document: Any, frame: Frame, page: PageResult) -> None:
    """Append the image at ``frame``; an empty page in its place where it is damaged and so has no reading."""
    try:
        add_image_page(document, frame)
    except (RenderFailed, UnreadableDocument):
        if page.status is not PageStatus.FAILED:
            raise
        document.new_page(-1)


def _rewritten(target: Path) -> Path:
    return target.with_name(f"{target.name}.rewritten")


def _save(pymupdf: Any, document: Any, target: Path, digest: str) -> None:
    """Append the changes to ``target``; of a new or newly repaired document, write all of it beside.

    Raises:
        OSError: there is no room for it.
    """
    if "ID" not in document.xref_get_keys(-1):
        document.xref_set_key(-1, "ID", f"[<{digest[:32]}> <{digest[:32]}>]")
    with _disk_errors(pymupdf, target):
        if document.name and document.can_save_incrementally():
            save_as_it_is(document, document.name, encryption=pymupdf.PDF_ENCRYPT_KEEP, incremental=True)
        else:
            save_as_it_is(document, str(_rewritten(target)), encryption=pymupdf.PDF_ENCRYPT_NONE)


@contextmanager
def _disk_errors(pymupdf: Any, target: Path) -> Iterator[None]:
    """Raise as ``OSError`` what MuPDF says when it cannot write."""
    try:
        yield
    except pymupdf.mupdf.FzErrorSystem as error:
        raise OSError(f"{target.name}: {error}") from error


def _settle(target: Path) -> None:
    if _rewritten(target).exists():
        _rewritten(target).replace(target)


def _old_words(pymupdf: Any, pdf_page: Any, page: PageResult) -> list[OldWord]:
    """Return the words that the page has already, placed on the upright page image."""
    if not page.dpi:
        return []
    words = pdf_page.get_text("words")
    if not words:
        return []
    to_pixels = _unturned_to_user_space(pymupdf, pdf_page) * ~pymupdf.Matrix(*_to_user_space(pymupdf, pdf_page, page))
    placed = []
    for left, top, right, bottom, text, *_ in words:
        x, y = pymupdf.Point((left + right) / 2, (top + bottom) / 2) * to_pixels
        placed.append(OldWord(text, (x, y)))
    return placed


def _unturned_to_user_space(pymupdf: Any, pdf_page: Any) -> Any:
    """Return the map from where PyMuPDF says that text is, on the page as it were without /Rotate, to user space."""
    turn = pdf_page.rotation
    if turn:
        pdf_page.set_rotation(0)
    try:
        return ~_shown(pymupdf, pdf_page)
    finally:
        if turn:
            pdf_page.set_rotation(turn)


def _to_user_space(pymupdf: Any, pdf_page: Any, page: PageResult) -> Affine:
    """Return the map from pixels of the upright page image to the page's user space.

    Undoes, in this order: the turn that made the rendered page upright, the resolution, and what the
    page itself asks for (/Rotate, CropBox, UserUnit).
    """
    if not page.dpi:
        raise ContractViolated(f"page {page.page_number} has {len(page.lines)} lines but no resolution")
    to_points = pymupdf.Matrix(POINTS_PER_INCH / page.dpi, POINTS_PER_INCH / page.dpi)
    a, b, c, d, e, f = pymupdf.Matrix(*_to_rendered(page)) * to_points * ~_shown(pymupdf, pdf_page)
    return a, b, c, d, e, f


def _shown(pymupdf: Any, pdf_page: Any) -> Any:
    """Return the map from the page's user space to the page as it is shown [pt, y down]."""
    low_level = pymupdf.mupdf
    box, shown = low_level.FzRect(low_level.FzRect.Fixed_UNIT), low_level.FzMatrix()
    low_level.pdf_page_transform(low_level.pdf_page_from_fz_page(pdf_page.this), box, shown)
    return pymupdf.Matrix(shown.a, shown.b, shown.c, shown.d, shown.e, shown.f)


def _to_rendered(page: PageResult) -> Affine:
    """Return the map from the upright page image back to the image as it was rendered [px]."""
    width, height = float(page.width_px), float(page.height_px)
    turned: dict[int, Affine] = {
        0: (1.0, 0.0, 0.0, 1.0, 0.0, 0.0),
        90: (0.0, -1.0, 1.0, 0.0, 0.0, width),
        180: (-1.0, 0.0, 0.0, -1.0, width, height),
        270: (0.0, 1.0, -1.0, 0.0, height, 0.0),
    }
    return turned[page.rotation]


def _add_font_resource(pymupdf: Any, document: Any, pdf_page: Any, plane: int, font_xref: int) -> None:
    """Name the font in the page's resources, which may be inherited or shared with other pages."""
    low_level = pymupdf.mupdf
    page_object = low_level.pdf_page_from_fz_page(pdf_page.this).obj()
    pdf = low_level.pdf_get_bound_document(page_object)
    resources = low_level.pdf_dict_get_inheritable(page_object, low_level.PDF_ENUM_NAME_Resources)
    if not low_level.pdf_is_dict(resources):
        resources = low_level.pdf_dict_put_dict(page_object, low_level.PDF_ENUM_NAME_Resources, 1)
    fonts = low_level.pdf_dict_get(resources, low_level.PDF_ENUM_NAME_Font)
    if not low_level.pdf_is_dict(fonts):
        fonts = low_level.pdf_dict_put_dict(resources, low_level.PDF_ENUM_NAME_Font, 1)
    name = f"{FONT_RESOURCE}{plane}"
    low_level.pdf_dict_puts(fonts, name, low_level.pdf_new_indirect(pdf, font_xref, 0))


def _prepend_content(document: Any, pdf_page: Any, stream: bytes) -> None:
    """Let the page show ``stream`` first, where no operator of the page has changed the coordinates yet."""
    streams = [add_stream(document, stream), *filter(None, pdf_page.get_contents())]  # 0 stands for null
    document.xref_set_key(pdf_page.xref, "Contents", f"[{' '.join(f'{xref} 0 R' for xref in streams)}]")
