"""What the server does by itself: free runs whose machine died, and call a webhook when something went wrong.

The server acts, not the run, so that runs which died without a word are covered too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import cast
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events import AutomationCore, CallWebhook, ChangeFlowRunState, EventTrigger, Posture, emit_event
from prefect.types import SecretDict
from pydantic import SecretStr

from flows.execution.events import DOCUMENT_EVENT, INCOMPLETE, QUARANTINED
from flows.settings import HEARTBEAT_S

SILENCE_S = 3 * HEARTBEAT_S
"""After which a run counts as dead."""

FREE_DEAD_RUNS = "tomeflow: free dead runs"
NOTIFY = "tomeflow: notify"

_BAD_ENDS = ("Failed", "Crashed", "TimedOut")
_QUIET_STATES = (*_BAD_ENDS, "Completed", INCOMPLETE, "Cancelled", "Paused", "Suspended", "Resuming", "AwaitingRetry")
# Fields of the event that a person needs to find the run; the UI knows the rest.
_PAYLOAD = """\
{
  "event": {{ event.event | tojson }},
  "occurred": {{ event.occurred.isoformat() | tojson }},
  "name": {{ event.resource['prefect.resource.name'] | tojson }},
  "resource": {{ event.resource['prefect.resource.id'] | tojson }},
  "message": {{ (event.resource['prefect.state-message'] or event.payload.message or "") | tojson }}
}"""


def zombie_automation() -> AutomationCore:
    """Return the rule that a run which falls silent has crashed: host, worker and run died together."""
    beats = {"prefect.flow-run.heartbeat", "prefect.flow-run.Running"}
    return AutomationCore(
        name=FREE_DEAD_RUNS,
        description="A run that sends no heartbeat any more has died with its worker; its slots are given back.",
        trigger=EventTrigger(
            after=beats,
            expect=beats.union(f"prefect.flow-run.{state}" for state in _QUIET_STATES),
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=SILENCE_S),
        ),
        actions=[ChangeFlowRunState(state=StateType.CRASHED, message=f"no sign of life for {SILENCE_S} s")],
    )


def webhook_automation(webhook_id: UUID) -> AutomationCore:
    """Return the rule that calls the webhook on failures and on quarantine."""
    return AutomationCore(
        name=NOTIFY,
        description="Calls the webhook when a run failed or crashed, and when pages were quarantined.",
        trigger=EventTrigger(
            expect={
                "prefect.flow-run.Failed",
                "prefect.flow-run.Crashed",
                "prefect.flow-run.TimedOut",
                DOCUMENT_EVENT + QUARANTINED,
            },
            match={"prefect.resource.id": ["prefect.flow-run.*", "tomeflow.document.*"]},
            for_each={"prefect.resource.id"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[CallWebhook(block_document_id=webhook_id, payload=_PAYLOAD)],
    )


def create_automations(client: SyncPrefectClient, webhook_url: str | None) -> None:
    """Create the automations anew; without ``webhook_url`` nobody is called.

    Anew, since a rule remembers: silence while the server itself was away says nothing of a run.
    """
    for name in (FREE_DEAD_RUNS, NOTIFY):
        for automation in client.read_automations_by_name(name):
            client.delete_automation(automation.id)
    client.create_automation(zombie_automation())
    if webhook_url:
        block = Webhook(
            method="POST", url=SecretStr(webhook_url), headers=SecretDict({"Content-Type": "application/json"})
        )
        client.create_automation(webhook_automation(cast(UUID, block.save("tomeflow-notify", overwrite=True))))


def expect_a_sign_of_life(flow_run_id: UUID) -> None:
    """Have the run crash if it stays silent from now on: it may have died while the server was away."""
    emit_event("prefect.flow-run.heartbeat", resource={"prefect.resource.id": f"prefect.flow-run.{flow_run_id}"})
