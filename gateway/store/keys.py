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
        "{sekisho}:key:<id>", "hash", "until revoked", "identity.api_keys", "one API key: keyed hash, name, role, times"
    ),
    Key("{sekisho}:keys", "set", "for ever", "identity.api_keys", "the ids of all API keys"),
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
API_KEYS = f"{TAG}:keys"


def api_key(key_id: str) -> str:
    return f"{TAG}:key:{key_id}"


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
