"""Every key in Redis: name, type, life, owner. All share one hash tag, so that a script may use several."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

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
    Key("{sekisho}:server-key", "string", "for ever", "identity.server_key", "fingerprint of server.key"),
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
    Key(
        "{sekisho}:grants:<engine>",
        "hash",
        "fields until their turn ends",
        "queueing",
        "turns in use: request id > what was asked, since when (MessagePack)",
    ),
    Key(
        "{sekisho}:line:<engine>",
        "zset",
        "members until their turn",
        "queueing",
        "who waits, by letter: class, subject, ticket, request id",
    ),
    Key(
        "{sekisho}:beats:<engine>",
        "zset",
        "members until their turn",
        "queueing",
        "who waits: request id > expiry in ms",
    ),
    Key(
        "{sekisho}:asks:<engine>",
        "hash",
        "fields until their turn",
        "queueing",
        "who waits: request id > what was asked (MessagePack)",
    ),
    Key(
        "{sekisho}:order:<class>:<engine>",
        "zset",
        "members until their turn",
        "queueing",
        "subjects of a class that wait, under the ticket of their first request > service received",
    ),
    Key(
        "{sekisho}:due:<engine>",
        "zset",
        "members until their turn",
        "queueing",
        "class and subject that wait > ms at which they will have waited too long",
    ),
    Key(
        "{sekisho}:service:<engine>",
        "zset",
        "members until it has faded",
        "queueing",
        "class and subject > weighted tokens served lately, scaled",
    ),
    Key(
        "{sekisho}:running:<engine>",
        "hash",
        "fields until their turns end",
        "queueing",
        "class and subject > turns in use; the same after a plus > what they were charged with",
    ),
    Key("{sekisho}:queue:<engine>", "string", "for ever", "queueing", "sums of the queue (MessagePack); see fair.lua"),
    Key("{sekisho}:speed:<engine>", "hash", "for ever", "queueing", "sums of measured speed; see queueing.speed"),
    Key(
        "{sekisho}:granted:<engine>",
        "channel",
        "none",
        "queueing",
        "ids of waiting requests that were just given a turn; empty: somebody left the line",
    ),
    Key(
        "{sekisho}:engines",
        "hash",
        "for ever",
        "queueing",
        "engine > when a gateway last told of it (Unix seconds), its rules, room and models (MessagePack)",
    ),
    Key(
        "{sekisho}:cancelled",
        "zset",
        "members for 10 minutes",
        "queueing",
        "requests that an administrator ended: request id > expiry in ms",
    ),
    Key(
        "{sekisho}:orders",
        "channel",
        "none",
        "queueing",
        "ids of requests that an administrator ended; empty: what is drained has changed",
    ),
    Key(
        "{sekisho}:usage:<subject>:<yyyymmdd>",
        "hash",
        "400 days",
        "usage.ledger",
        "requests and tokens of a day (UTC): what|key|program|model > amount",
    ),
    Key(
        "{sekisho}:usage-subjects:<yyyymmdd>",
        "zset",
        "400 days",
        "usage.ledger",
        "who used anything on a day (UTC), in order of their letters",
    ),
    Key(
        "{sekisho}:settled:<request>",
        "string",
        "10 minutes",
        "usage.ledger",
        "marks a request as booked, against booking twice",
    ),
    Key(
        "{sekisho}:quota:<policy>:<limit>:<whom>",
        "hash",
        "2 days after its last use",
        "quotas",
        "a limit per minute: level (units) at (ms), and held, which is reserved and not used yet",
    ),
    Key(
        "{sekisho}:quota:<policy>:<limit>:<whom>:<period>",
        "string",
        "2 days after its period",
        "quotas",
        "a limit per day (yyyymmdd) or month (yyyymm): used and reserved units; money in millionths",
    ),
    Key(
        "{sekisho}:quota:<policy>:concurrent_requests:<whom>",
        "zset",
        "members until their expiry",
        "quotas",
        "requests in flight: request id > expiry in ms",
    ),
    Key(
        "{sekisho}:reservation:<request>",
        "hash",
        "until settled, a day at most",
        "quotas",
        "what a request holds of each limit: rules, keys, held; used: what is known of its use so far",
    ),
    Key(
        "{sekisho}:reservations",
        "zset",
        "members until settled",
        "quotas",
        "all reservations: request id > expiry of its lease in ms",
    ),
    Key(
        "{sekisho}:reservation-end:<request>",
        "string",
        "10 minutes; an hour where the reaper did it",
        "quotas",
        "marks a reservation as settled, against settling twice",
    ),
    Key(
        "{sekisho}:estimate:<whom>:<model>",
        "hash",
        "30 days after its last use",
        "quotas",
        "p90 of the output tokens of a request, learned, and how many were seen",
    ),
)

SERVER_KEY = f"{TAG}:server-key"
CHANGED = f"{TAG}:changed"
AUDIT = f"{TAG}:audit"
RESERVATIONS = f"{TAG}:reservations"
ENGINES = f"{TAG}:engines"
CANCELLED = f"{TAG}:cancelled"
ORDERS = f"{TAG}:orders"


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


def grants(engine: str) -> str:
    return f"{TAG}:grants:{engine}"


def asks(engine: str) -> str:
    return f"{TAG}:asks:{engine}"


def order(engine: str, klass: str) -> str:
    return f"{TAG}:order:{klass}:{engine}"


def due(engine: str) -> str:
    return f"{TAG}:due:{engine}"


def service(engine: str) -> str:
    return f"{TAG}:service:{engine}"


def running(engine: str) -> str:
    return f"{TAG}:running:{engine}"


def queue(engine: str) -> str:
    return f"{TAG}:queue:{engine}"


def speed(engine: str) -> str:
    return f"{TAG}:speed:{engine}"


def granted(engine: str) -> str:
    return f"{TAG}:granted:{engine}"


def usage(subject: str, day: str) -> str:
    return f"{TAG}:usage:{subject}:{day}"


def usage_subjects(day: str) -> str:
    return f"{TAG}:usage-subjects:{day}"


def settled(request_id: str) -> str:
    return f"{TAG}:settled:{request_id}"


def quota(policy: str, limit: str, whom: str, period: str = "") -> str:
    # Quoted: names of groups and people are other systems' to choose, and no two may share a key.
    return ":".join((f"{TAG}:quota", policy, limit, quote(whom, safe=":@"), *((period,) if period else ())))


def reservation(request_id: str) -> str:
    return f"{TAG}:reservation:{request_id}"


def reservation_end(request_id: str) -> str:
    return f"{TAG}:reservation-end:{request_id}"


def estimate(whom: str, model: str) -> str:
    return f"{TAG}:estimate:{quote(whom, safe=':@')}:{quote(model, safe='/')}"
