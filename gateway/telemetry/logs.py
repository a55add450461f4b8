"""The door's lines in the log: one a request, and prompts where the operator has them recorded. Knows no stage."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from backends.telemetry import lines
from backends.telemetry.spans import coded
from gateway.scope import RequestScope

log = logging.getLogger("sekisho.access")
prompts = logging.getLogger("sekisho.prompts")

_LONGEST_NAME = 200  # a model that nobody serves may be called anything


def setup(level: str) -> None:
    """Send all logs to standard error as JSON. Other people's libraries speak up from warnings on."""
    lines.setup(logging.WARNING)
    logging.getLogger("sekisho").setLevel(level.upper())
    prompts.setLevel(logging.INFO)  # whatever else is logged: they are asked for by a setting of their own


def access(request: RequestScope, seconds: float, level: int) -> None:
    """One line a request."""
    if not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        "request_id": request.request_id,
        "method": request.method[:20],
        "route": request.route,
        "status": request.status,
        "outcome": coded(request.outcome) or "error",  # an engine's own code may be anything
        "ms": round(seconds * 1000, 1),
    }
    if request.principal is not None:
        fields["subject"] = request.principal.subject
    if request.model:
        queued = round(request.queued_seconds * 1000, 1)
        fields |= {"model": request.model[:_LONGEST_NAME], "queue_ms": queued, **request.tokens}
    if request.first_token:
        fields["ttft_ms"] = round((request.first_token - request.received) * 1000, 1)
    log.log(level, "request", extra={"fields": fields})


def recorded(request: RequestScope, messages: Mapping[str, Any]) -> None:
    """What was asked and answered, of a tenant whose prompts are recorded."""
    principal = request.known()
    fields = {"tenant": principal.tenant, "subject": principal.subject, "model": request.model, **messages}
    prompts.info("prompt and answer", extra={"fields": fields})
