"""What a run says of a document to the server that it runs on."""

from __future__ import annotations

from prefect.events import emit_event

INCOMPLETE = "Incomplete"
"""Name of the state of a run that has done what it could, where something is left to do for a person."""


DOCUMENT_EVENT = "tomeflow.document."


QUARANTINED = "quarantined"


def announce(what: str, document_id: str, message: str) -> None:
    """Tell the server what happened to a document: ``quarantined``, ``loading_paused``, ``loading_resumed``."""
    emit_event(
        DOCUMENT_EVENT + what,
        resource={"prefect.resource.id": f"tomeflow.document.{document_id}", "prefect.resource.name": document_id},
        payload={"message": message},
    )
