"""Every key in Redis: its name, type, life and owner, and what it holds. A test holds the code to it."""

from __future__ import annotations

from typing import NamedTuple


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
    Key(
        "{sekisho}:owned:<kind>:<subject>",
        "hash",
        "fields until deleted",
        "batches",
        "files and batches of somebody: id > bytes that count against what they may store",
    ),
    Key("{sekisho}:open-batches", "zset", "members until they end", "batches", "batches that have not ended"),
    Key("{sekisho}:batch-lease:<id>", "string", "a lease, renewed", "batches", "which gateway runs a batch"),
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
        "{sekisho}:leases:<line>",
        "zset",
        "members until their expiry",
        "queueing",
        "turns in use: request id > expiry in ms",
    ),
    Key(
        "{sekisho}:grants:<line>",
        "hash",
        "fields until their turn ends",
        "queueing",
        "turns in use: request id > what was asked, since when (MessagePack)",
    ),
    Key(
        "{sekisho}:line:<line>",
        "zset",
        "members until their turn",
        "queueing",
        "who waits, by letter: class, subject, lane, ticket, request id",
    ),
    Key(
        "{sekisho}:beats:<line>",
        "zset",
        "members until their turn",
        "queueing",
        "who waits: request id > expiry in ms",
    ),
    Key(
        "{sekisho}:asks:<line>",
        "hash",
        "fields until their turn",
        "queueing",
        "who waits: request id > what was asked (MessagePack)",
    ),
    Key(
        "{sekisho}:order:<class>:<line>",
        "zset",
        "members until their turn",
        "queueing",
        "subjects of a class that wait, once a lane, under the ticket of their first request > service received",
    ),
    Key(
        "{sekisho}:due:<line>",
        "zset",
        "members until their turn",
        "queueing",
        "class, subject and lane that wait > ms at which they will have waited too long",
    ),
    Key(
        "{sekisho}:service:<line>",
        "zset",
        "members until it has faded",
        "queueing",
        "class and subject > weighted tokens served lately, scaled",
    ),
    Key(
        "{sekisho}:running:<line>",
        "hash",
        "fields until their turns end",
        "queueing",
        "class and subject > turns in use; the same after a plus > what they were charged with",
    ),
    Key("{sekisho}:queue:<line>", "string", "for ever", "queueing", "sums of the queue (MessagePack); see fair.lua"),
    Key(
        "{sekisho}:speed:<line>",
        "hash",
        "for ever",
        "queueing",
        "backend > sums of measured speed (MessagePack); see queueing.speed",
    ),
    Key(
        "{sekisho}:granted:<line>",
        "channel",
        "none",
        "queueing",
        "ids of waiting requests that were just given a turn; empty: somebody left the line",
    ),
    Key(
        "{sekisho}:lines",
        "hash",
        "for ever",
        "queueing",
        "line > when a gateway last told of it (Unix seconds), its rules, rooms and models (MessagePack)",
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
        "{sekisho}:activity",
        "hash",
        "10 s, renewed",
        "activity.shared",
        "gateway > until when it counts (ms), and what went on there in the last minutes (MessagePack)",
    ),
    Key(
        "{sekisho}:health",
        "hash",
        "fields for 5 s, renewed",
        "routing.shared",
        "gateway > until when it counts (ms), and how it finds the backends (MessagePack)",
    ),
    Key(
        "{sekisho}:health-told",
        "channel",
        "none",
        "routing.shared",
        "a gateway and how it finds the backends now (MessagePack)",
    ),
    Key(
        "{sekisho}:prefixes:<tenant>",
        "zset",
        "30 days after its last use",
        "routing.prefix_use",
        "the names that a tenant gave to beginnings of prompts > Unix seconds of their last use",
    ),
    Key(
        "{sekisho}:prefix-use:<tenant>",
        "hash",
        "as prefixes:<tenant>",
        "routing.prefix_use",
        "what|name > requests, prompt and cached tokens of prompts that begin so",
    ),
    Key(
        "{sekisho}:prefix-used:<request>",
        "string",
        "10 minutes",
        "routing.prefix_use",
        "marks a request as counted, against counting twice",
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
