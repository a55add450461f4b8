"""Structured logs: one JSON object a line. Prompts, answers and secrets are never in them."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from gateway.scope import RequestScope

log = logging.getLogger("sekisho.access")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def setup(level: str) -> None:
    """Send the door's logs to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger("sekisho")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def access(request: RequestScope, seconds: float, level: int) -> None:
    """One line a request."""
    if not log.isEnabledFor(level):
        return
    fields: dict[str, Any] = {
        "request_id": request.request_id,
        "method": request.method,
        "route": request.route,
        "status": request.status,
        "outcome": request.outcome,
        "ms": round(seconds * 1000, 1),
    }
    if request.principal is not None:
        fields["subject"] = request.principal.subject
    if request.model:
        fields |= {"model": request.model, "queue_ms": round(request.queued_seconds * 1000, 1), **request.tokens}
    if request.first_token:
        fields["ttft_ms"] = round((request.first_token - request.received) * 1000, 1)
    log.log(level, "request", extra={"fields": fields})
