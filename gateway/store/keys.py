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
    Key(
        "{sekisho}:used:<kind>:<id>",
        "string",
        "400 days after its last use",
        "store.records",
        "when an API key was last used, Unix seconds, to the minute",
    ),
    Key("{sekisho}:changed", "channel", "none", "store.records", "<kind>:<id> of what was just changed or deleted"),
    Key(
        "{sekisho}:audit", "stream", "the last million", "store.records", "the audit trail: every administrative change"
    ),
    Key(
        "{sekisho}:session:<id>",
        "string",
        "idle or absolute end",
        "identity.sessions",
        "a browser's session as JSON, its tokens encrypted; the id is a hash of the cookie",
    ),
    Key(
        "{sekisho}:sessions:<index>",
        "zset",
        "members until their end",
        "identity.sessions",
        "ids of sessions: all, ends, user:<id>, sid:<hash>",
    ),
    Key("{sekisho}:refresh:<session>", "string", "5 s, renewed", "identity.refresh", "who renews a session's tokens"),
    Key("{sekisho}:sign-in:<hash>", "string", "10 minutes", "identity.sign_in", "a sign-in that a browser has begun"),
    Key("{sekisho}:link:<hash>", "string", "10 minutes", "identity.local_link", "whom a one-time link signs in"),
    Key("{sekisho}:logout:<hash>", "string", "a token's life", "identity.logout", "marks a logout token as used"),
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


def session(session_id: str) -> str:
    return f"{TAG}:session:{session_id}"


def sessions(index: str) -> str:
    return f"{TAG}:sessions:{index}"


def refresh(session_id: str) -> str:
    return f"{TAG}:refresh:{session_id}"


def sign_in(digest: str) -> str:
    return f"{TAG}:sign-in:{digest}"


def link(digest: str) -> str:
    return f"{TAG}:link:{digest}"


def logout(digest: str) -> str:
    return f"{TAG}:logout:{digest}"


def used(kind: str, record_id: str) -> str:
    return f"{TAG}:used:{kind}:{record_id}"


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
