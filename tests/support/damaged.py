"""PDFs drawn small and plain, so that a test can damage the very bytes it means; one with all that a PDF can say."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pikepdf
from pikepdf import Array, Dictionary, Name, OutlineItem, String

LETTER = (0, 0, 612, 792)


def plain_pdf(pages: int = 2, **save: Any) -> bytes:
    """Return a PDF whose page ``n`` shows "Hello page n", uncompressed, every object at its own place."""
    with pikepdf.new() as pdf:
        font = pdf.make_indirect(Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name("/Times-Italic")))
        for number in range(1, pages + 1):
            content = pdf.make_stream(f"BT /F0 36 Tf 50 700 Td (Hello page {number}) Tj ET\n".encode())
            page = Dictionary(Type=Name.Page, MediaBox=Array(LETTER), Contents=content)
            page.Resources = Dictionary(Font=Dictionary(F0=font))
            pdf.pages.append(pikepdf.Page(pdf.make_indirect(page)))
        file = io.BytesIO()
        options = {"object_stream_mode": pikepdf.ObjectStreamMode.disable, "compress_streams": False, "static_id": True}
        pdf.save(file, **options | save)
        return file.getvalue()


def replaced(pattern: bytes, by: bytes, content: bytes, count: int = 0) -> bytes:
    """Return ``content`` changed, and make sure that it is."""
    changed = re.sub(pattern, by, content, count=count)
    assert changed != content
    return changed


def structured_pdf(path: Path, **save: Any) -> Path:
    """Write five pages with labels i, ii, 1, 2, A-7 and all that a document can say of its pages."""
    with pikepdf.open(io.BytesIO(plain_pdf(5))) as pdf:
        root, pages = pdf.Root, [page.obj for page in pdf.pages]
        labels = {0: Dictionary(S=Name.r), 2: Dictionary(S=Name.D), 4: Dictionary(S=Name.D, P=String("A-"), St=7)}
        kids = [Dictionary(Nums=Array([start, label]), Limits=Array([start, start])) for start, label in labels.items()]
        root.PageLabels = Dictionary(Kids=Array([pdf.make_indirect(kid) for kid in kids]))
        root.Lang = String("de")
        root.ViewerPreferences = Dictionary(Direction=Name.R2L)
        layer = pdf.make_indirect(Dictionary(Type=Name.OCG, Name=String("layer")))
        root.OCProperties = Dictionary(OCGs=Array([layer]), D=Dictionary(ON=Array([layer])))
        pdf.attachments["note.txt"] = pikepdf.AttachedFileSpec(pdf, b"a note", filename="note.txt")
        root.PageMode = Name.UseOutlines
        with pdf.open_metadata() as metadata:
            metadata["dc:title"] = "Der Titel"
        _add_outline(pdf)
        _add_destinations_and_links(pdf, pages)
        _add_fields(pdf, pages)
        _add_tags(pdf, pages)
        pdf.save(path, static_id=True, **save)
    return path


def _add_outline(pdf: pikepdf.Pdf) -> None:
    with pdf.open_outline() as outline:
        for number, children in ((1, ()), (2, (3, 5)), (4, (5,))):
            item = OutlineItem(f"to {number}", number - 1)
            item.children.extend(OutlineItem(f"to {number}, {child}", child - 1) for child in children)
            outline.root.append(item)


def _add_destinations_and_links(pdf: pikepdf.Pdf, pages: list[Any]) -> None:
    names = [part for n in range(1, 6) for part in (String(f"page{n}"), Array([pages[n - 1], Name.Fit]))]
    pdf.Root.Names.Dests = pdf.make_indirect(Dictionary(Names=Array(names)))
    for page, (near, far) in zip(pages[1:3], ((3, 1), (2, 5)), strict=True):
        page.Annots = Array()
        for destination in (Array([pages[near - 1], Name.Fit]), String(f"page{near}"), String(f"page{far}")):
            link = Dictionary(Type=Name.Annot, Subtype=Name.Link, Rect=Array([100, 700, 300, 740]), Dest=destination)
            page.Annots.append(pdf.make_indirect(link))


def _add_fields(pdf: pikepdf.Pdf, pages: list[Any]) -> None:
    """Let there be a field on page 2, one on page 4, and one that pages 2 and 5 share."""
    form = pdf.Root.AcroForm = pdf.make_indirect(Dictionary(Fields=Array(), DA=String("/Helv 12 Tf 0 g")))
    shared = pdf.make_indirect(Dictionary(FT=Name.Tx, T=String("shared"), V=String("both"), Kids=Array()))
    for number, name in ((2, "second"), (4, "fourth"), (2, None), (5, None)):
        widget = Dictionary(Type=Name.Annot, Subtype=Name.Widget, Rect=Array([100, 100, 300, 130]), F=4)
        widget.P = pages[number - 1]
        widget = pdf.make_indirect(widget)
        if name:
            widget.FT, widget.T, widget.V = Name.Tx, String(name), String(f"value of {name}")
            form.Fields.append(widget)
        else:
            widget.Parent = shared
            shared.Kids.append(widget)
        page = pages[number - 1]
        page.Annots = Array([*page.get("/Annots", Array()), widget])
    form.Fields.append(shared)


def _add_tags(pdf: pikepdf.Pdf, pages: list[Any]) -> None:
    tree = pdf.Root.StructTreeRoot = pdf.make_indirect(Dictionary(Type=Name.StructTreeRoot))
    whole = pdf.make_indirect(Dictionary(Type=Name.StructElem, S=Name.Document, P=tree, K=Array()))
    numbers = Array()
    for index, page in enumerate(pages):
        said = String(f"words of page {index + 1}")
        paragraph = Dictionary(Type=Name.StructElem, S=Name.P, P=whole, Pg=page, K=0, ActualText=said)
        whole.K.append(pdf.make_indirect(paragraph))
        page.StructParents = index
        numbers.extend([index, Array([whole.K[-1]])])
    tree.K, tree.ParentTree = whole, Dictionary(Nums=numbers)
    pdf.Root.MarkInfo = Dictionary(Marked=True)
