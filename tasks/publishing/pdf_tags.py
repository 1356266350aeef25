"""The tags of the pages that stay, of a document of which others go (ISO 32000-1, 14.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pikepdf
from pikepdf import Array, Dictionary, Name

MOST_ELEMENTS = 200_000
"""Structure elements; more fill memory, and then the tags go."""

DEEPEST_LEVEL = 64
"""Of name trees, outlines and form fields; what lies deeper is a mistake or an attack."""

ObjectId = tuple[int, int]
TOO_MANY = f"the tags (more than {MOST_ELEMENTS} structure elements)"
DAMAGED = "the tags, which are damaged"


def keep_tags_of(pdf: pikepdf.Pdf, gone_pages: set[ObjectId], gone_annotations: set[ObjectId]) -> list[str]:
    """Take out of the structure tree what stands on the pages that go; return what goes beside, in words."""
    tree = pdf.Root.get("/StructTreeRoot")
    if not isinstance(tree, Dictionary) or "/K" not in tree:
        return []
    try:
        tags = _Tags(tree, gone_pages, gone_annotations)
    except (TypeError, ValueError, KeyError, AttributeError, pikepdf.PdfError):
        return _without_tags(pdf, DAMAGED)
    if tags.are_too_many:
        return _without_tags(pdf, TOO_MANY)
    tags.select()
    return []


def leaves(tree: Any, kind: Literal["/Names", "/Nums"]) -> Iterator[tuple[Any, Any]]:
    """Yield the keys and values of a name tree or number tree, in their order; a damaged branch is left out."""
    waiting: list[tuple[Any, int]] = [(tree, 0)]
    seen: set[ObjectId] = set()
    while waiting:
        node, level = waiting.pop()
        if not isinstance(node, Dictionary) or node.objgen in seen - {(0, 0)} or level > DEEPEST_LEVEL:
            continue
        seen.add(node.objgen)
        pairs = list(node.get(kind, ()))
        yield from zip(pairs[::2], pairs[1::2], strict=False)
        waiting += [(kid, level + 1) for kid in reversed(list(node.get("/Kids", ())))]


def _without_tags(pdf: pikepdf.Pdf, why: str) -> list[str]:
    for key in ("/StructTreeRoot", "/MarkInfo"):
        if key in pdf.Root:
            del pdf.Root[key]
    return [why]


class _Tags:
    """The elements of a structure tree, parents before children."""

    def __init__(self, tree: Any, gone_pages: set[ObjectId], gone_annotations: set[ObjectId]) -> None:
        self._tree = tree
        self._gone_pages = gone_pages
        self._gone_annotations = gone_annotations
        self._elements: list[tuple[Any, ObjectId]] = []
        self._dropped: set[ObjectId] = set()
        self._collect()

    @property
    def are_too_many(self) -> bool:
        return len(self._elements) > MOST_ELEMENTS

    def _collect(self) -> None:
        waiting: list[tuple[Any, ObjectId]] = [(self._tree, (0, 0))]
        seen: set[ObjectId] = set()
        while waiting and not self.are_too_many:
            element, page = waiting.pop()
            if element.objgen in seen and element.objgen != (0, 0):
                continue
            seen.add(element.objgen)
            page = _page_of(element) or page
            self._elements.append((element, page))
            waiting += [(kid, page) for kid in _kids(element) if _is_element(kid)]

    def select(self) -> None:
        """Take out, children before parents, what stands on pages that go, and the elements that are left empty."""
        for element, page in reversed(self._elements):
            kids = _kids(element)
            kept = [kid for kid in kids if self._stays(kid, page)]
            if len(kept) < len(kids):
                element.K = Array(kept)
            is_lost = not kept and (bool(kids) or page in self._gone_pages)
            if is_lost and element.objgen not in ((0, 0), self._tree.objgen):
                self._dropped.add(element.objgen)
            if _page_of(element) in self._gone_pages:
                del element["/Pg"]
        self._select_index("/ParentTree", "/Nums")
        self._select_index("/IDTree", "/Names")

    def _stays(self, kid: Any, page: ObjectId) -> bool:
        if not isinstance(kid, Dictionary):
            return page not in self._gone_pages
        if _is_element(kid):
            return kid.objgen not in self._dropped
        about = kid.get("/Obj")
        is_of_a_gone_one = isinstance(about, Dictionary) and about.objgen in self._gone_annotations
        return (_page_of(kid) or page) not in self._gone_pages and not is_of_a_gone_one

    def _select_index(self, name: str, kind: Literal["/Names", "/Nums"]) -> None:
        """Leave out of a tree of elements, by number or by name, those that went."""
        if name not in self._tree:
            return
        pairs = [part for pair in leaves(self._tree[name], kind) if self._is_of_use(pair[1]) for part in pair]
        self._tree[name] = Dictionary({kind: Array(pairs)})

    def _is_of_use(self, value: Any) -> bool:
        elements = list(value) if isinstance(value, Array) else [value]
        return any(isinstance(e, Dictionary) and e.objgen not in self._dropped for e in elements)


def _kids(element: Any) -> list[Any]:
    kids = element.get("/K")
    return [] if kids is None else list(kids) if isinstance(kids, Array) else [kids]


def _is_element(kid: Any) -> bool:
    return isinstance(kid, Dictionary) and kid.get("/Type") not in (Name.MCR, Name.OBJR)


def _page_of(element: Any) -> ObjectId | None:
    page = element.get("/Pg")
    return page.objgen if isinstance(page, Dictionary) else None
