"""The names of keys in Redis; key_table.py says what they are. All share one hash tag: a script may use several."""

from __future__ import annotations

from urllib.parse import quote

TAG = "{sekisho}"

SCHEMA = f"{TAG}:schema"
SCHEMA_LEASE = f"{TAG}:schema-lease"
SERVER_KEY = f"{TAG}:server-key"
CHANGED = f"{TAG}:changed"
AUDIT = f"{TAG}:audit"
RESERVATIONS = f"{TAG}:reservations"
LINES = f"{TAG}:lines"
CANCELLED = f"{TAG}:cancelled"
ORDERS = f"{TAG}:orders"
ACTIVITY = f"{TAG}:activity"
HEALTH = f"{TAG}:health"
HEALTH_TOLD = f"{TAG}:health-told"
OPEN_BATCHES = f"{TAG}:open-batches"


def record(kind: str, record_id: str) -> str:
    return f"{TAG}:record:{kind}:{record_id}"


def records(kind: str) -> str:
    return f"{TAG}:records:{kind}"


def owned(kind: str, subject: str) -> str:
    return f"{TAG}:owned:{kind}:{quote(subject, safe='@')}"


def batch_lease(batch_id: str) -> str:
    return f"{TAG}:batch-lease:{batch_id}"


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


def leases(line: str) -> str:
    return f"{TAG}:leases:{line}"


def line(line: str) -> str:
    return f"{TAG}:line:{line}"


def beats(line: str) -> str:
    return f"{TAG}:beats:{line}"


def grants(line: str) -> str:
    return f"{TAG}:grants:{line}"


def asks(line: str) -> str:
    return f"{TAG}:asks:{line}"


def order(line: str, klass: str) -> str:
    return f"{TAG}:order:{klass}:{line}"


def due(line: str) -> str:
    return f"{TAG}:due:{line}"


def service(line: str) -> str:
    return f"{TAG}:service:{line}"


def running(line: str) -> str:
    return f"{TAG}:running:{line}"


def queue(line: str) -> str:
    return f"{TAG}:queue:{line}"


def speed(line: str) -> str:
    return f"{TAG}:speed:{line}"


def granted(line: str) -> str:
    return f"{TAG}:granted:{line}"


def prefixes(tenant: str) -> str:
    return f"{TAG}:prefixes:{quote(tenant, safe='@')}"


def prefix_use(tenant: str) -> str:
    return f"{TAG}:prefix-use:{quote(tenant, safe='@')}"


def prefix_used(request_id: str) -> str:
    return f"{TAG}:prefix-used:{request_id}"


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


def chats(subject: str) -> str:
    return f"{TAG}:chats:{subject}"


def chat(conversation_id: str) -> str:
    return f"{TAG}:chat:{conversation_id}"


def chat_templates(tenant: str) -> str:
    return f"{TAG}:chat-templates:{quote(tenant, safe='@')}"


def answer(message_id: str) -> str:
    return f"{TAG}:answer:{message_id}"


def answer_events(message_id: str) -> str:
    return f"{TAG}:answer-events:{message_id}"


def answer_lease(message_id: str) -> str:
    return f"{TAG}:answer-lease:{message_id}"
