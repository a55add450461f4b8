"""What administrators do with engines: hold them off, weigh them, add them, try them. Checks no right."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from backends.errors import BackendError
from gateway.errors import BadRequest, Conflict, NotFound
from gateway.routing.fleet import Fleet
from gateway.routing.member import Member, NoKey, key_of
from gateway.routing.placing import MOST_ORDERS, Placed, Placing
from gateway.routing.shown import BackendShown, Ordered, shown, shown_disabled
from gateway.settings.engines import BackendSettings
from gateway.store.directory import Actor, Directory

_TRIAL_SECONDS = 60.0
_LARGEST_ANSWER = 1024 * 1024
_LONGEST_REASON = 500


class Engines(NamedTuple):
    """What administrators work with."""

    directory: Directory
    placing: Placing
    fleet: Fleet


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One short question, straight at an engine. ttft_seconds: until it said anything."""

    backend: str
    model: str
    ok: bool
    seconds: float
    ttft_seconds: float | None
    error: str


def every(engines: Engines) -> list[BackendShown]:
    """Those that are disabled come last."""
    (_, placing, fleet), now = engines, time.monotonic()
    there = [shown(member, fleet.line(member), now, _ordered(placing, name)) for name, member in fleet.members.items()]
    return [*there, *(shown_disabled(one, _ordered(placing, name)) for name, one in placing.disabled.items())]


async def change(engines: Engines, actor: Actor, name: str, fields: dict[str, Any]) -> BackendShown:
    """An order about an engine: its `use`, its `weight`."""
    _find(engines, name)
    if fields.get("use", "disabled") != "disabled":
        _check_key(engines.placing, name)

    def edit(order: Placed) -> Placed:
        return msgspec.structs.replace(order, **fields)

    await _put(engines.directory, actor, name, edit)
    await engines.placing.look()
    return _find(engines, name)


async def add(engines: Engines, actor: Actor, fields: dict[str, Any], api_key: str | None) -> BackendShown:
    """An engine beside those of the settings."""
    placing, name = engines.placing, str(fields["name"])
    if len(placing.orders) >= MOST_ORDERS:
        raise Conflict(f"At most {MOST_ORDERS} engines have orders. Remove some first.")
    try:
        BackendSettings.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        message = fault["msg"].removeprefix("Value error, ")
        raise BadRequest(f"{where or 'backend'}: {message}", param=where or None) from None
    if name in {one.name for one in every(engines)}:
        raise Conflict(f"There is a backend {name!r} already.", param="name")
    sealed = placing.sealed(name, api_key) if api_key else ""
    await engines.directory.create(actor, Placed(id=name, created=int(time.time()), added=fields, api_key=sealed))
    await placing.look()
    return _find(engines, name)


async def remove(engines: Engines, actor: Actor, name: str) -> None:
    """One that was added: it takes nobody new, what runs there may finish."""
    _find(engines, name)
    if name in engines.placing.named:
        raise Conflict(f"The backend {name!r} is named by the settings. Disable it here, or take it out there.")
    await engines.directory.delete(actor, Placed, name)
    await engines.placing.look()


async def attempt(engines: Engines, actor: Actor, name: str) -> Trial:
    """Ask an engine something now, whatever is known of its health; nobody is charged."""
    _find(engines, name)
    member = engines.fleet.members.get(name)
    if member is None:
        raise Conflict(f"The backend {name!r} is disabled. Enable it first.")
    if not member.names:
        await engines.fleet.look()
    model = min(member.names, default="")
    trial = await _tried(member, model) if model else _failed(name, "", time.monotonic(), "It lists no model.")
    told = {"ok": trial.ok, "error": trial.error}
    await engines.directory.note(actor, "backend.test", f"backend:{name}", told)
    return trial


async def _tried(member: Member, model: str) -> Trial:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            first = await _first_bytes(member, model, began)
    except TimeoutError:
        return _failed(member.name, model, began, f"It did not answer within {_TRIAL_SECONDS:g} seconds.")
    except BackendError as error:
        return _failed(member.name, model, began, str(error)[:_LONGEST_REASON] or type(error).__name__)
    seconds = time.monotonic() - began
    return Trial(backend=member.name, model=model, ok=True, seconds=seconds, ttft_seconds=first, error="")


async def _first_bytes(member: Member, model: str, began: float) -> float | None:
    """Reads the whole answer. Raises BackendError."""
    asked: dict[str, Any] = {"model": member.names[model]}
    if member.cards[model].task == "embed":
        path = "/v1/embeddings"
        asked |= {"input": "ping"}
    else:
        path = "/v1/chat/completions"
        asked |= {"messages": [{"role": "user", "content": "ping"}], "max_tokens": 8, "stream": True}
        asked |= {"stream_options": {"include_usage": True}}
    upstream = await member.backend.open(path, msgspec.json.encode(asked), {})
    first, size = None, 0
    try:
        async for chunk in upstream.chunks():
            first = time.monotonic() - began if first is None else first
            size += len(chunk)
            if size > _LARGEST_ANSWER:
                break
    finally:
        await upstream.aclose()
    return first


def _failed(name: str, model: str, began: float, error: str) -> Trial:
    seconds = time.monotonic() - began
    return Trial(backend=name, model=model, ok=False, seconds=seconds, ttft_seconds=None, error=error)


async def _put(directory: Directory, actor: Actor, name: str, edit: Callable[[Placed], Placed]) -> None:
    if await directory.get(Placed, name) is None:
        try:
            await directory.create(actor, edit(Placed(id=name, created=int(time.time()))))
            return
        except Conflict:
            pass  # somebody else was quicker
    await directory.change(actor, Placed, name, edit)


def _check_key(placing: Placing, name: str) -> None:
    """An engine that was disabled may have lost its key: then no gateway could follow the order. Raises Conflict."""
    if (settings := placing.disabled.get(name)) is None:
        return
    try:
        key_of(settings)
    except NoKey as error:
        raise Conflict(f"{error}. Nothing was changed: put the key back, then enable the engine.") from None


def _find(engines: Engines, name: str) -> BackendShown:
    for one in every(engines):
        if one.name == name:
            return one
    raise NotFound(f"There is no backend {name[:64]!r}.", param="id")


def _ordered(placing: Placing, name: str) -> Ordered:
    order = placing.orders.get(name)
    added = name not in placing.named
    return Ordered(added=added) if order is None else Ordered(added=added, use=order.use, weight=order.weight)
