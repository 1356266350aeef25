"""What is the matter with a source beside what stands on its pages: repairs, encryption, restrictions, signatures.

Goes into the manifest and into a warning: who publishes a document has to know what its copy is no longer.
Permissions: ISO 32000-1, table 22. Certification (DocMDP): ISO 32000-1, 12.8.2.2.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

SHOWN_DAMAGES = 20
"""Damaged pages named in a manifest; beyond, their number says enough."""

_MOST_FIELDS = 100_000
_RESTRICTIONS = (
    (1 << 2, "printing"),
    (1 << 3, "changing"),
    (1 << 4, "copying"),
    (1 << 5, "annotating"),
    (1 << 8, "filling in forms"),
    (1 << 10, "assembling"),
    (1 << 11, "printing well"),
)
_CERTIFIED = {1: "no changes", 2: "only filling in forms", 3: "only filling in forms and annotating"}


class SourceCondition(BaseModel):
    """What readers of a publication should know of its source. Empty fields: nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repaired_by: str | None = Field(None, description="program and version whose repair is read instead of the file")
    damage: tuple[str, ...] = Field((), description="what was found wrong with the file and its pages")
    encryption: str | None = Field(None, description="of a file that opens without a password")
    restrictions: tuple[str, ...] = Field((), description="what the owner of the file does not allow")
    signatures: int = Field(0, ge=0, description="signature fields that are signed")
    certified_for: str | None = Field(None, description="changes that the certifying signature allows (DocMDP)")
    usage_rights: bool = Field(False, description="whether it carries a signature of usage rights (Perms, UR3)")

    def manifest_fields(self) -> dict[str, Any]:
        """Return what the manifest says of it; nothing of a source with which nothing is the matter."""
        said = self.model_dump(mode="json", exclude_defaults=True)
        return {"source_condition": said} if said else {}

    def warnings(self) -> list[str]:
        """Return a sentence for each thing that is the matter."""
        said = []
        if self.repaired_by:
            said.append(
                f"the source is damaged ({'; '.join(self.damage)}); it is read as {self.repaired_by} repairs it."
            )
        elif self.damage:
            said.append(f"the source is damaged: {'; '.join(self.damage)}.")
        if self.restrictions:
            said.append(
                f"the owner of the source does not allow {', '.join(self.restrictions)}; document.pdf carries no such "
                "restriction. See that you may publish it."
            )
        if self.encryption and not self.restrictions:
            said.append(f"the source is encrypted ({self.encryption}), with no password; document.pdf is not.")
        if self.signatures or self.certified_for or self.usage_rights:
            allowed = f", certified for {self.certified_for}" if self.certified_for else ""
            said.append(
                f"the source is signed ({self.signatures} signatures{allowed}); with its text layer document.pdf is "
                "changed, and no signature vouches for it. Keep the source."
            )
        return said


def condition_of(pymupdf: Any, document: Any) -> dict[str, Any]:
    """Return the fields of ``SourceCondition`` on encryption and signatures, of an open PDF."""
    low_level = pymupdf.mupdf
    trailer = low_level.pdf_trailer(low_level.pdf_document_from_fz_document(document.this))
    encrypt = low_level.pdf_dict_gets(trailer, "Encrypt")
    catalog = low_level.pdf_dict_gets(trailer, "Root")
    found: dict[str, Any] = {}
    if low_level.pdf_is_dict(encrypt):
        permissions = low_level.pdf_dict_get_int(encrypt, low_level.pdf_new_name("P"))
        found["encryption"] = str((document.metadata or {}).get("encryption") or "Standard")
        found["restrictions"] = tuple(name for bit, name in _RESTRICTIONS if not permissions & bit)
    rights = low_level.pdf_dict_gets(catalog, "Perms")
    found["usage_rights"] = any(low_level.pdf_is_dict(low_level.pdf_dict_gets(rights, key)) for key in ("UR", "UR3"))
    certificate = low_level.pdf_dict_gets(rights, "DocMDP")
    if low_level.pdf_is_dict(certificate):
        found["certified_for"] = _CERTIFIED.get(_allowed_changes(low_level, certificate), _CERTIFIED[2])
    fields = low_level.pdf_dict_gets(low_level.pdf_dict_gets(catalog, "AcroForm"), "Fields")
    found["signatures"] = _count_signatures(low_level, fields)
    return found


def _allowed_changes(low_level: Any, certificate: Any) -> int:
    """Return P of the certificate's parameters, 2 where it does not say."""
    references = low_level.pdf_dict_gets(certificate, "Reference")
    for index in range(low_level.pdf_array_len(references)):
        reference = low_level.pdf_array_get(references, index)
        parameters = low_level.pdf_dict_gets(reference, "TransformParams")
        if level := low_level.pdf_dict_get_int(parameters, low_level.pdf_new_name("P")):
            return int(level)
    return 2


def _count_signatures(low_level: Any, fields: Any) -> int:
    """Return how many signature fields of the tree below ``fields`` hold a signature; each field counts once."""
    waiting = [(low_level.pdf_array_get(fields, index), "") for index in range(low_level.pdf_array_len(fields))]
    seen: set[int] = set()
    signatures = 0
    while waiting and len(seen) < _MOST_FIELDS:
        field, inherited = waiting.pop()
        number = low_level.pdf_to_num(field)
        if number in seen:
            continue
        seen.add(number or -len(seen) - 1)
        kind = low_level.pdf_to_name(low_level.pdf_dict_gets(field, "FT")) or inherited
        signatures += kind == "Sig" and bool(low_level.pdf_is_dict(low_level.pdf_dict_gets(field, "V")))
        kids = low_level.pdf_dict_gets(field, "Kids")
        waiting += [(low_level.pdf_array_get(kids, index), kind) for index in range(low_level.pdf_array_len(kids))]
    return signatures
