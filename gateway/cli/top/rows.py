"""A snapshot as the figures above and the rows of the four tables. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.activity.shown import ModelActivity, SubjectActivity
from gateway.cli.top.client import Snapshot
from gateway.queueing.administration import RequestShown
from gateway.queueing.ask import CLASSES
from gateway.routing.shown import BackendShown


@dataclass(frozen=True, slots=True)
class ModelRow:
    """Seconds and tokens a second; requests and failed: of the last minute."""

    id: str
    draining: bool
    running: int
    waiting: int
    longest: int | None  # that somebody waits
    out_speed: float
    in_speed: float
    ttft_p50: float | None
    ttft_p95: float | None
    tpot_p95: float | None
    requests: int
    failed: int
    goodput: float | None


@dataclass(frozen=True, slots=True)
class BackendRow:
    id: str
    state: str
    running: int
    capacity: int
    waiting: int | None  # in the engine
    kv: float | None
    out_speed: float
    in_speed: float
    preemptions: int | None
    slowness: float
    models: str
    why: str


@dataclass(frozen=True, slots=True)
class PersonRow:
    id: str
    name: str
    running: int
    waiting: int
    longest: int | None
    out_speed: float
    in_speed: float
    minute: int  # tokens
    today: int  # tokens, booked


@dataclass(frozen=True, slots=True)
class RequestRow:
    id: str
    klass: str
    state: str
    place: int | None
    eta: float | None
    age: int
    subject: str
    name: str
    model: str
    backend: str
    line: str
    tokens: int


Row = ModelRow | BackendRow | PersonRow | RequestRow


class Waits(NamedTuple):
    klass: str
    running: int
    waiting: int
    longest: int | None


@dataclass(frozen=True, slots=True)
class Head:
    at: int
    gateways: int
    running: int
    permits: int
    waits: Sequence[Waits]
    fullest: tuple[str, float] | None  # backend, share of its KV cache in use
    cached: float | None  # share of the prompt tokens that were counted in the last minute
    history_in: Sequence[int]
    history_out: Sequence[int]
    total: ModelActivity
    preemptions: int | None
    failures: Sequence[tuple[str, int]]  # the most frequent first
    unfit: Sequence[str]  # backends that take nobody, and why
    alerts: Sequence[str]  # what else needs attention, the gravest first


class Picture(NamedTuple):
    """`cut`: the tables that are longer than the gateway tells."""

    head: Head
    models: Sequence[ModelRow]
    backends: Sequence[BackendRow]
    people: Sequence[PersonRow]
    requests: Sequence[RequestRow]
    cut: frozenset[str]


def picture(snapshot: Snapshot) -> Picture:
    requests = [one for line in snapshot.queue.lines for one in (*line.running, *line.waiting)]
    names = {one.id: one.name for one in snapshot.activity.subjects if one.name}
    at = snapshot.activity.at
    return Picture(
        head=_head(snapshot),
        models=_models(snapshot, requests),
        backends=_backends(snapshot),
        people=_people(snapshot.activity.subjects, requests, at),
        requests=[_request(one, names.get(one.subject, ""), at) for one in requests],
        cut=frozenset(_cut(snapshot)),
    )


def _cut(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.activity.has_more:
        yield "people"
    if any(line.has_more for line in snapshot.queue.lines):
        yield "requests"


class _Load(NamedTuple):
    running: int
    waiting: int
    longest: int | None


def _load(requests: Iterable[RequestShown], at: int) -> _Load:
    states = Counter[str]()
    since = at
    for one in requests:
        states[one.state] += 1
        if one.state == "waiting":
            since = min(since, one.waiting_since)
    return _Load(states["running"], states["waiting"], at - since if states["waiting"] else None)


def _head(snapshot: Snapshot) -> Head:
    activity, lines = snapshot.activity, snapshot.queue.lines
    rooms = [backend for line in lines for backend in line.backends]
    total = activity.total
    preemptions = [one.preemptions for one in activity.backends if one.preemptions is not None]
    kv = [(one.name, one.kv_use) for one in snapshot.backends if one.kv_use is not None]
    return Head(
        at=activity.at,
        gateways=activity.gateways,
        running=sum(room.running for room in rooms),
        permits=sum(room.capacity for room in rooms),
        waits=_waits(snapshot),
        fullest=max(kv, key=lambda one: one[1], default=None),
        cached=total.cached_tokens / total.counted_prompt_tokens if total.counted_prompt_tokens else None,
        history_in=activity.history.prompt_tokens_per_second,
        history_out=activity.history.completion_tokens_per_second,
        total=total,
        preemptions=sum(preemptions) if preemptions else None,
        failures=sorted(activity.failures.items(), key=lambda one: (-one[1], one[0])),
        unfit=[f"{one.name} is {one.state}: {one.why}" for one in snapshot.backends if one.share == 0],
        alerts=[one.message for one in snapshot.alerts if one.code != "backend_away"],
    )


def _waits(snapshot: Snapshot) -> list[Waits]:
    lines = snapshot.queue.lines
    found = []
    for klass in CLASSES:
        counts = [line.classes[klass] for line in lines if klass in line.classes]
        waiting = [one for line in lines for one in line.waiting if one.klass == klass]
        running, waits = sum(count.running for count in counts), sum(count.waiting for count in counts)
        found.append(Waits(klass, running, waits, _load(waiting, snapshot.activity.at).longest))
    return found


def _models(snapshot: Snapshot, requests: Sequence[RequestShown]) -> list[ModelRow]:
    active = {one.id: one for one in snapshot.activity.models}
    draining = {one.id for one in snapshot.queue.draining}
    by_model = _grouped(requests, lambda one: one.model)
    known = {name for line in snapshot.queue.lines for name in line.models}
    rows = []
    for name in sorted(known | active.keys() | by_model.keys()):
        load, of = _load(by_model.get(name, ()), snapshot.activity.at), active.get(name, ModelActivity(id=name))
        speeds = (of.completion_tokens_per_second, of.prompt_tokens_per_second)
        times = (of.ttft_p50, of.ttft_p95, of.tpot_p95)
        rows.append(ModelRow(name, name in draining, *load, *speeds, *times, of.requests, of.failed, of.goodput))
    return rows


def _backends(snapshot: Snapshot) -> list[BackendRow]:
    rooms = {room.name: room for line in snapshot.queue.lines for room in line.backends}
    active = {one.name: one for one in snapshot.activity.backends}
    rows = []
    for one in snapshot.backends:
        room, of = rooms.get(one.name), active.get(one.name)
        rows.append(
            BackendRow(
                id=one.name,
                state=one.state,
                running=room.running if room else one.held,
                capacity=room.capacity if room else one.capacity,
                waiting=one.waiting,
                kv=one.kv_use,
                out_speed=of.completion_tokens_per_second if of else 0.0,
                in_speed=of.prompt_tokens_per_second if of else 0.0,
                preemptions=of.preemptions if of else None,
                slowness=one.slowness,
                models=", ".join(one.models),
                why=_why(one),
            )
        )
    return rows


def _why(backend: BackendShown) -> str:
    return backend.stale or backend.why


def _people(subjects: Sequence[SubjectActivity], requests: Sequence[RequestShown], at: int) -> list[PersonRow]:
    """Who used something lately, and who runs or waits and has told of nothing yet."""
    by_subject = _grouped(requests, lambda one: one.subject)
    active = {one.id: one for one in subjects}
    rows = []
    for subject in {**active, **by_subject}:
        of = active.get(subject, SubjectActivity(id=subject))
        load = _load(by_subject.get(subject, ()), at)
        speeds = (of.completion_tokens_per_second, of.prompt_tokens_per_second)
        minute = of.prompt_tokens + of.completion_tokens
        today = of.prompt_tokens_today + of.completion_tokens_today
        rows.append(PersonRow(subject, of.name or "", *load, *speeds, minute, today))
    return rows


def _request(one: RequestShown, name: str, at: int) -> RequestRow:
    return RequestRow(
        id=one.id,
        klass=one.klass,
        state=one.state,
        place=one.place,
        eta=one.eta_seconds,
        age=max(0, at - (one.running_since or one.waiting_since)),
        subject=one.subject,
        name=name,
        model=one.model,
        backend=one.backend or "",
        line=one.line,
        tokens=one.tokens,
    )


def _grouped(requests: Iterable[RequestShown], name: Callable[[RequestShown], str]) -> Mapping[str, list[RequestShown]]:
    found: dict[str, list[RequestShown]] = {}
    for one in requests:
        found.setdefault(name(one), []).append(one)
    return found
