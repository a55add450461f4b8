"""The queue as administrators see it and what they do to it. Each act leaves a line in the trail. Checks no right."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from gateway.errors import Conflict, NotFound
from gateway.queueing import known
from gateway.queueing.ask import CLASSES, Room
from gateway.queueing.orders import Drain
from gateway.queueing.scripts import CANCEL, PLACES, RECLASS, SURVEY, names
from gateway.scope import QueueClass
from gateway.store import keys
from gateway.store.directory import Actor, Directory
from gateway.store.redis import Store

# A gateway tells of its lines twice a second; after a minute of silence it is told of no more, unless it is in use.
_SILENCE_SECONDS = 60
# A place costs the more the more wait; nobody else's script waits for all of them.
_PLACES_TOGETHER = 20
# Of each class. Their places have to be known to say who are the first.
_MOST_READ = 1000
_CANCELLED_MS = 600_000


class _Asked(msgspec.Struct, frozen=True):
    """As fair.lua packs it."""

    klass: int = msgspec.field(name="class")
    subject: str
    tokens: float
    kv: float
    asked: float = 0.0
    granted: float = 0.0
    model: str = ""
    backend: str = ""


class RequestShown(msgspec.Struct, frozen=True, kw_only=True):
    """tokens: the service it is expected to take, weighted. kv_tokens: of the engine's cache. Times are Unix seconds.

    backend: where it runs. place, eta_seconds: of one that waits; null as long as nobody can say.
    """

    id: str
    object: Literal["queued_request"] = "queued_request"
    line: str
    backend: str | None
    state: Literal["running", "waiting"]
    klass: QueueClass = msgspec.field(name="class")
    subject: str
    model: str
    tokens: int
    kv_tokens: int
    waiting_since: int
    running_since: int | None
    place: int | None
    eta_seconds: float | None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    running: int
    waiting: int


class BackendShown(msgspec.Struct, frozen=True, kw_only=True):
    """capacity: how many may run now, by its size and its speed. kv_tokens: of its whole cache; null: not known.

    One that is gone, while somebody still runs there, has capacity 0.
    """

    name: str
    object: Literal["backend"] = "backend"
    capacity: int
    running: int
    kv_tokens: int | None
    kv_tokens_in_use: int


class LineShown(msgspec.Struct, frozen=True, kw_only=True):
    """Those who wait together, for a turn at whichever backend has what they want."""

    name: str
    object: Literal["line"] = "line"
    models: tuple[str, ...]
    backends: list[BackendShown]
    classes: dict[QueueClass, Counts]
    running: list[RequestShown]
    waiting: list[RequestShown]
    has_more: bool


class DrainShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model that takes nobody new, or did until now."""

    id: str
    object: Literal["model"] = "model"
    draining: bool
    since: int | None


class QueueShown(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["queue"] = "queue"
    lines: list[LineShown]
    draining: list[DrainShown]


async def look(store: Store, directory: Directory, limit: int, subject: str = "") -> QueueShown:
    """At most `limit` of those that run and of those that wait in each line, of everybody or of one subject."""
    lines = [await _line(store, name, line, limit, subject) for name, line in (await _lines(store)).items()]
    drains = await directory.page(Drain, limit=1000)
    return QueueShown(
        lines=[shown for shown, told in lines if told or shown.running or shown.waiting],
        draining=[_drained(drain) for drain in drains],
    )


async def cancel(store: Store, directory: Directory, actor: Actor, request_id: str) -> RequestShown:
    """End a request, wherever it is. The gateway that has it hears of it at once; what was used is booked."""
    found, _ = await _find(store, request_id)
    call = CANCEL.call((keys.CANCELLED, keys.ORDERS), request_id, _CANCELLED_MS)
    await store.run(call)
    await directory.note(actor, "queue.cancel", f"request:{request_id}", _told(found))
    return found


async def change_class(
    store: Store, directory: Directory, actor: Actor, request_id: str, klass: QueueClass
) -> RequestShown:
    """Let a request wait in another class, as the last of its subject there. It waits no longer than it would have."""
    found, line = await _find(store, request_id)
    number = CLASSES.index(klass) + 1
    if not await store.run(RECLASS.call(names(found.line), line.rules, request_id, number)):
        raise Conflict(f"Request {request_id} has its turn: its class means nothing any more.", code="not_waiting")
    await directory.note(actor, "queue.class", f"request:{request_id}", _told(found) | {"class": klass})
    return await _placed(store, msgspec.structs.replace(found, klass=klass), line)


async def drain(store: Store, directory: Directory, actor: Actor, model: str) -> DrainShown:
    """Nobody new for a model: who waits for it is refused too, who runs may finish."""
    if model not in {name for line in (await _lines(store)).values() for name in line.models}:
        raise NotFound(f"No engine serves a model {model[:200]!r}.", param="id")
    drain = Drain(id=model, created=int(time.time()))
    try:
        await directory.create(actor, drain)
    except Conflict:
        drain = await directory.find(Drain, model)
    await store.command("PUBLISH", keys.ORDERS, "")
    return _drained(drain)


async def undrain(store: Store, directory: Directory, actor: Actor, model: str) -> DrainShown:
    try:
        await directory.delete(actor, Drain, model)
    except NotFound:
        raise NotFound(f"The model {model[:200]!r} is not draining.", param="id") from None
    await store.command("PUBLISH", keys.ORDERS, "")
    return DrainShown(id=model, draining=False, since=None)


async def _lines(store: Store) -> dict[str, known.Line]:
    found = await store.command("HGETALL", keys.LINES)
    return {name.decode(): known.heard(stored) for name, stored in sorted(_pairs(found))}


async def _line(store: Store, name: str, line: known.Line, limit: int, subject: str) -> tuple[LineShown, bool]:
    """And whether a gateway has told of it lately."""
    call = SURVEY.call(names(name), line.rules, _MOST_READ, subject)
    now, used, held, counts, lined_up = await store.run(call)
    every = [_request(name, request_id, packed) for request_id, packed in _pairs(held)]
    running = [one for one in every if subject in ("", one.subject)]
    waiting = [_request(name, request_id, packed) for request_id, packed in _pairs(lined_up)]
    waiting = await _all_placed(store, waiting, line)
    shown = LineShown(
        name=name,
        models=line.models,
        backends=_backends(line.rooms, used),
        classes={
            klass: Counts(running=sum(one.klass == klass for one in every), waiting=count)
            for klass, count in zip(CLASSES, counts, strict=True)
        },
        running=sorted(running, key=lambda one: one.running_since or 0)[:limit],
        waiting=waiting[:limit],
        has_more=max(len(running), len(waiting)) > limit or (not subject and sum(counts) > len(waiting)),
    )
    return shown, now / 1000 - line.told < _SILENCE_SECONDS


async def _find(store: Store, request_id: str) -> tuple[RequestShown, known.Line]:
    for name, line in (await _lines(store)).items():
        for place in (keys.asks(name), keys.grants(name)):
            if (packed := await store.command("HGET", place, request_id)) is not None:
                return _request(name, request_id.encode(), packed), line
    raise NotFound(f"No request {request_id[:64]!r} runs or waits.", param="id")


async def _all_placed(store: Store, waiting: Sequence[RequestShown], line: known.Line) -> list[RequestShown]:
    """In order of their places; without those that have left meanwhile."""
    placed: list[RequestShown] = []
    for start in range(0, len(waiting), _PLACES_TOGETHER):
        some = waiting[start : start + _PLACES_TOGETHER]
        told = await store.run(PLACES.call(names(some[0].line), line.rules, *(one.id for one in some)))
        for one, place, eta in zip(some, told[::2], told[1::2], strict=True):
            if place:
                eta_seconds = None if eta < 0 else eta / 1000
                placed.append(msgspec.structs.replace(one, place=place, eta_seconds=eta_seconds))
    return sorted(placed, key=lambda one: (one.place or 0, one.waiting_since))


async def _placed(store: Store, waiting: RequestShown, line: known.Line) -> RequestShown:
    return (await _all_placed(store, [waiting], line) or [waiting])[0]


def _request(line: str, request_id: bytes, packed: bytes) -> RequestShown:
    asked = msgspec.msgpack.decode(packed, type=_Asked, strict=False)
    return RequestShown(
        id=request_id.decode(),
        line=line,
        backend=asked.backend or None,
        state="running" if asked.granted else "waiting",
        klass=CLASSES[asked.klass - 1],
        subject=asked.subject,
        model=asked.model,
        tokens=round(asked.tokens),
        kv_tokens=round(asked.kv),
        waiting_since=round(asked.asked / 1000),
        running_since=round(asked.granted / 1000) if asked.granted else None,
        place=None,
        eta_seconds=None,
    )


def _backends(rooms: Mapping[str, Room], used: Sequence[Any]) -> list[BackendShown]:
    in_use = {name.decode(): (running, kv) for name, running, kv in zip(used[::3], used[1::3], used[2::3], strict=True)}
    shown = []
    for name in sorted(rooms.keys() | in_use):
        room, (running, kv) = rooms.get(name, Room(0)), in_use.get(name, (0, 0))
        kv_tokens = room.kv_tokens or None
        shown.append(
            BackendShown(name=name, capacity=room.capacity, running=running, kv_tokens=kv_tokens, kv_tokens_in_use=kv)
        )
    return shown


def _told(request: RequestShown) -> dict[str, Any]:
    """For the trail."""
    return {"state": request.state, "class": request.klass, "subject": request.subject, "model": request.model}


def _drained(drain: Drain) -> DrainShown:
    return DrainShown(id=drain.id, draining=True, since=drain.created)


def _pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
