"""Every key in Redis: name, type, life, owner. All share one hash tag, so that a script may use several."""

from __future__ import annotations

from typing import NamedTuple

TAG = "{sekisho}"


class Key(NamedTuple):
    pattern: str
    type: str
    life: str
    owner: str
    holds: str


KEYS = (
    Key(
        "{sekisho}:record:<kind>:<id>",
        "string",
        "until deleted",
        "store.records",
        "a user, group, service account or API key as JSON; of keys only a hash",
    ),
    Key(
        "{sekisho}:records:<kind>", "zset", "for ever", "store.records", "the ids of a kind, in order of their letters"
    ),
    Key("{sekisho}:changed", "channel", "none", "store.records", "<kind>:<id> of what was just changed or deleted"),
    Key(
        "{sekisho}:audit", "stream", "the last million", "store.records", "the audit trail: every administrative change"
    ),
    Key(
        "{sekisho}:leases:<engine>",
        "zset",
        "members until their expiry",
        "queueing",
        "turns in use: request id > expiry in ms",
    ),
    Key("{sekisho}:line:<engine>", "zset", "members until their turn", "queueing", "who waits: request id > ticket"),
    Key(
        "{sekisho}:beats:<engine>",
        "zset",
        "members until their turn",
        "queueing",
        "who waits: request id > expiry in ms",
    ),
    Key("{sekisho}:ticket:<engine>", "string", "for ever", "queueing", "the last ticket given, a counter"),
    Key("{sekisho}:granted", "channel", "none", "queueing", "ids of waiting requests that were just given a turn"),
    Key(
        "{sekisho}:usage:<subject>:<yyyymmdd>", "hash", "400 days", "usage.ledger", "requests and tokens of a day (UTC)"
    ),
    Key(
        "{sekisho}:settled:<request>",
        "string",
        "10 minutes",
        "usage.ledger",
        "marks a request as booked, against booking twice",
    ),
)

GRANTED = f"{TAG}:granted"
CHANGED = f"{TAG}:changed"
AUDIT = f"{TAG}:audit"


def record(kind: str, record_id: str) -> str:
    return f"{TAG}:record:{kind}:{record_id}"


def records(kind: str) -> str:
    return f"{TAG}:records:{kind}"


def leases(engine: str) -> str:
    return f"{TAG}:leases:{engine}"


def line(engine: str) -> str:
    return f"{TAG}:line:{engine}"


def beats(engine: str) -> str:
    return f"{TAG}:beats:{engine}"


def ticket(engine: str) -> str:
    return f"{TAG}:ticket:{engine}"


def usage(subject: str, day: str) -> str:
    return f"{TAG}:usage:{subject}:{day}"


def settled(request_id: str) -> str:
    return f"{TAG}:settled:{request_id}"
