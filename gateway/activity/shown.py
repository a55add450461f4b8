"""What gateways told of themselves, added up for administrators. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from backends.edges import FIRST_TOKEN, INTER_TOKEN
from gateway.activity.slots import SLOT_SECONDS, Figure, Streamed, Told

_EDGES = {"ttft": FIRST_TOKEN, "tpot": INTER_TOKEN}


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last minute, those of answers under way among them; per second: of the last ten seconds.

    A prompt counts as soon as its answer has begun, estimated until the engine has counted it at the answer's end:
    counted_prompt_tokens, of which cached_tokens are a part.
    """

    prompt_tokens: int = 0
    counted_prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_per_second: float = 0.0
    completion_tokens_per_second: float = 0.0


class ModelActivity(Tokens, frozen=True, kw_only=True):
    """Requests that ended in the last minute; failed: with a status of 400 or more.

    Times are seconds, of the answers of the last minute but those of batches, read from histograms as Prometheus reads
    them; null: there were none. goodput: the share of them that met the gateway's objectives.
    """

    id: str
    object: Literal["model.activity"] = "model.activity"
    requests: int = 0
    failed: int = 0
    goodput: float | None = None
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    tpot_p50: float | None = None
    tpot_p95: float | None = None


class BackendActivity(Tokens, frozen=True, kw_only=True):
    """preemptions: requests that it put back to make room in its KV cache; null: it does not say."""

    name: str
    object: Literal["backend.activity"] = "backend.activity"
    preemptions: int | None = None


class SubjectActivity(Tokens, frozen=True, kw_only=True):
    """A person or a program. name: null where there is none. today: tokens booked on this day (UTC)."""

    id: str
    object: Literal["subject.activity"] = "subject.activity"
    name: str | None = None
    prompt_tokens_today: int = 0
    completion_tokens_today: int = 0


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens a second in slots of so many seconds, the oldest first, five minutes at most."""

    slot_seconds: float
    prompt_tokens_per_second: list[int]
    completion_tokens_per_second: list[int]


class ActivityShown(msgspec.Struct, frozen=True, kw_only=True):
    """at: Unix seconds. gateways: how many told of themselves lately. total: of all models.

    failures: requests refused or broken off in the last minute, by error code. subjects: who runs, waits or used
    something in the last minute, those with the most tokens first; of each gateway 200 at most.
    """

    object: Literal["activity"] = "activity"
    at: int
    gateways: int
    total: ModelActivity
    failures: dict[str, int]
    history: History
    models: list[ModelActivity]
    backends: list[BackendActivity]
    subjects: list[SubjectActivity]
    has_more: bool


@dataclass(slots=True)
class _Sums:
    """Of one thing, by what was counted."""

    minute: dict[str, int] = field(default_factory=dict)
    per_second: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, minute: int, per_second: float) -> None:
        self.minute[what] = self.minute.get(what, 0) + minute
        self.per_second[what] = self.per_second.get(what, 0.0) + per_second

    def tokens(self) -> dict[str, Any]:
        counts: dict[str, Any] = {what: self.minute.get(what, 0) for what in Streamed._fields}
        for what in ("prompt_tokens", "completion_tokens"):
            counts[f"{what}_per_second"] = self.per_second.get(what, 0.0)
        return counts

    def time(self, what: str, share: float) -> float | None:
        edges = _EDGES[what]
        return quantile(edges, [self.minute.get(f"{what}.{place}", 0) for place in range(len(edges) + 1)], share)


def shown(tellings: Sequence[Told], most_subjects: int, at: int) -> ActivityShown:
    """`name` and what was booked today are still to be filled in."""
    of = _by_thing(tellings)
    subjects = [SubjectActivity(id=name, **sums.tokens()) for name, sums in of.get("subject", {}).items()]
    subjects.sort(key=lambda one: (-one.prompt_tokens - one.completion_tokens, one.id))
    models = dict(sorted(of.get("model", {}).items()))
    return ActivityShown(
        at=at,
        gateways=len(tellings),
        total=_model("", _together(models)),
        failures={code: n for code, sums in of.get("code", {}).items() if (n := sums.minute["failures"])},
        history=_history(tellings),
        models=[_model(name, sums) for name, sums in models.items()],
        backends=[_backend(name, sums) for name, sums in sorted(of.get("backend", {}).items())],
        subjects=subjects[:most_subjects],
        has_more=len(subjects) > most_subjects,
    )


def quantile(edges: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Prometheus' histogram_quantile: evenly spread between two edges, the last edge for what lies beyond it."""
    rank, below = share * sum(counts), 0
    if not any(counts):
        return None
    for place, edge in enumerate(edges):
        if below + counts[place] >= rank and counts[place]:
            start = edges[place - 1] if place else 0.0
            return start + (edge - start) * (rank - below) / counts[place]
        below += counts[place]
    return edges[-1]


def _by_thing(tellings: Sequence[Told]) -> dict[str, dict[str, _Sums]]:
    found: dict[str, dict[str, _Sums]] = {}
    seen: dict[Figure, int] = {}
    for told in tellings:
        for kind, name, what, lately, minute in told.rows:
            # Every gateway hears the same of an engine.
            counted = seen.get((kind, name, what), 0) if what == "preemptions" else 0
            seen[kind, name, what] = max(minute, counted)
            sums = found.setdefault(kind, {}).setdefault(name, _Sums())
            sums.add(what, max(0, minute - counted), lately / max(told.seconds, 1.0))
    return found


def _together(models: Mapping[str, _Sums]) -> _Sums:
    whole = _Sums()
    for sums in models.values():
        for what, minute in sums.minute.items():
            whole.add(what, minute, sums.per_second[what])
    return whole


def _model(name: str, sums: _Sums) -> ModelActivity:
    return ModelActivity(
        id=name,
        requests=sums.minute.get("requests", 0),
        failed=sums.minute.get("failed", 0),
        goodput=sums.minute.get("met", 0) / judged if (judged := sums.minute.get("judged", 0)) else None,
        ttft_p50=sums.time("ttft", 0.5),
        ttft_p95=sums.time("ttft", 0.95),
        tpot_p50=sums.time("tpot", 0.5),
        tpot_p95=sums.time("tpot", 0.95),
        **sums.tokens(),
    )


def _backend(name: str, sums: _Sums) -> BackendActivity:
    return BackendActivity(name=name, preemptions=sums.minute.get("preemptions"), **sums.tokens())


def _history(tellings: Sequence[Told]) -> History:
    """The slots of several gateways begin at other moments; they are added from the newest backwards."""
    backwards = zip_longest(*(reversed(told.history) for told in tellings), fillvalue=(0, 0))
    slots = [(sum(one[0] for one in slot), sum(one[1] for one in slot)) for slot in backwards][::-1]
    return History(
        slot_seconds=SLOT_SECONDS,
        prompt_tokens_per_second=[slot[0] for slot in slots],
        completion_tokens_per_second=[slot[1] for slot in slots],
    )
