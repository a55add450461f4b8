"""What operators should act on now, told from what the gateways know themselves. Pure: facts in, alerts out.

The conditions are those of deploy/prometheus/rules, as far as one moment tells them; what takes longer stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from gateway.activity.shown import ActivityShown
from gateway.queueing.administration import LineShown
from gateway.routing.shown import BackendShown

Severity = Literal["critical", "warning", "info"]
Values = Mapping[str, int | float | str]

_SICK = frozenset({"down", "failing", "misconfigured"})
# Fewer answers than these in the last minute say little about how people are served.
_FEWEST = 10
_WORST_GOODPUT = 0.95
_MOST_FAILED = 0.05
_FULL = 0.9
_MOST_PREEMPTIONS = 5  # in a minute
_NEAR = 0.9
_REFUSALS = ("queue_full", "queue_timeout")
# Codes of what is the door's or an engine's fault, whatever was asked.
_OURS = frozenset({"engine_unavailable", "engine_error", "engine_timeout", "internal_error", "store_unavailable"})


class _Kind(NamedTuple):
    """A sentence with values, and what to do."""

    severity: Severity
    message: str
    todo: str


_KINDS: dict[str, _Kind] = {
    "store_away": _Kind(
        "critical",
        "Redis does not answer: requests are refused, or let in by local shares.",
        "See whether Valkey or Redis runs, has memory, and is a primary that can be written to.",
    ),
    "no_engine": _Kind(
        "critical",
        "No engine takes requests: nobody gets an answer.",
        "See under Backends how each is and why; start one, or enable one again.",
    ),
    "requests_fail": _Kind(
        "critical",
        "{failed} requests of the last minute ended in a fault of the gateway or an engine ({share}).",
        "The errors of the last minute say what fails, and the gateway's log why.",
    ),
    "backend_away": _Kind(
        "warning",
        "The backend {backend} takes no requests ({state}): {why}",
        "See whether its process runs and what its log says last; Test now tries it.",
    ),
    "queue_refuses": _Kind(
        "warning",
        "The queue turned away {refused} requests in the last minute.",
        "More work comes than the engines do: add an engine, or lower what programs may send.",
    ),
    "queue_waits": _Kind(
        "warning",
        "Waiting in the line {line}: {waiting}, the last of them about {seconds} in all; the target is {target}.",
        "See under Queue who fills it; move work that can wait to the class batch, or add an engine.",
    ),
    "first_token_slow": _Kind(
        "warning",
        "{model}: one answer in twenty begins after {seconds} or later; the target is {target}.",
        "See whether the time goes into the queue or the engine; add capacity, or shed batch work.",
    ),
    "goodput_low": _Kind(
        "warning",
        "{model}: only {share} of the answers of the last minute were as promised.",
        "Late, slow or failed: each has another remedy; the figures by model say which it is.",
    ),
    "kv_full": _Kind(
        "warning",
        "{backend}: {share} of the KV cache is in use; the next long conversations preempt each other.",
        "Let it run fewer at once (--max-num-seqs) or shorter ones (--max-model-len), or give it more memory.",
    ),
    "preemptions": _Kind(
        "warning",
        "{backend} put back {count} running requests in the last minute: their work is done twice.",
        "More run at once than its KV cache holds: lower --max-num-seqs, or give it more memory.",
    ),
    "figures_stale": _Kind(
        "warning",
        "The load figures of {backend} cannot be believed: {why}",
        "See whether the engine's /metrics answers.",
    ),
    "provider_away": _Kind(
        "warning",
        "The identity provider {issuer} does not answer: nobody new can sign in.",
        "Fetch its /.well-known/openid-configuration from the gateway's machine.",
    ),
    "budget_near_end": _Kind(
        "info",
        "Policy {policy}: {share} of {limit} is used by whoever used most of it.",
        "See under Usage and cost who used what, and raise the limit if that is meant to be.",
    ),
}


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """code, values: for programs and other languages. message, todo: the same as sentences. Shares are 0 to 1."""

    object: Literal["alert"] = "alert"
    code: str
    severity: Severity
    values: Values
    message: str
    todo: str


class Facts(NamedTuple):
    """away: whether Redis is, so that of activity and lines nothing is known. budgets: the part used of each limit,
    by policy and limit. target_seconds: to the first token, what people were promised."""

    away: bool
    ready: bool
    backends: Sequence[BackendShown]
    providers_away: Sequence[str]
    budgets: Mapping[tuple[str, ...], float]
    activity: ActivityShown | None
    lines: Sequence[LineShown]
    target_seconds: float
    now: float  # Unix seconds


def alerts(facts: Facts) -> list[Alert]:
    """The gravest first."""
    order = list(_KINDS)
    found = [_alert(code, values) for look in _LOOKS for code, values in look(facts)]
    return sorted(found, key=lambda one: (order.index(one.code), *map(str, one.values.values())))


_Found = Iterable[tuple[str, Values]]


def _parts(facts: Facts) -> _Found:
    if facts.away:
        yield "store_away", {}
    if not facts.ready:
        yield "no_engine", {}
    for issuer in facts.providers_away:
        yield "provider_away", {"issuer": issuer}


def _backends(facts: Facts) -> _Found:
    for one in facts.backends:
        if one.state in _SICK:
            yield "backend_away", {"backend": one.name, "state": one.state, "why": one.why}
        if one.stale:
            yield "figures_stale", {"backend": one.name, "why": one.stale}
        if one.kv_use is not None and one.kv_use > _FULL:
            yield "kv_full", {"backend": one.name, "share": one.kv_use}


def _lately(facts: Facts) -> _Found:
    if (activity := facts.activity) is None:
        return
    failures, asked = activity.failures, activity.total.requests
    failed = sum(failures.get(code, 0) for code in _OURS)
    if asked >= _FEWEST and failed > _MOST_FAILED * asked:
        yield "requests_fail", {"failed": failed, "share": min(1.0, failed / asked)}
    if refused := sum(failures.get(code, 0) for code in _REFUSALS):
        yield "queue_refuses", {"refused": refused}
    for model in activity.models:
        if model.requests < _FEWEST:
            continue
        if model.ttft_p95 is not None and model.ttft_p95 > facts.target_seconds:
            late: Values = {"model": model.id, "seconds": model.ttft_p95, "target": facts.target_seconds}
            yield "first_token_slow", late
        if model.goodput is not None and model.goodput < _WORST_GOODPUT:
            yield "goodput_low", {"model": model.id, "share": model.goodput}
    for backend in activity.backends:
        if (backend.preemptions or 0) > _MOST_PREEMPTIONS:
            yield "preemptions", {"backend": backend.name, "count": backend.preemptions or 0}


def _lines(facts: Facts) -> _Found:
    """Batch work waits by design."""
    for line in facts.lines:
        waiting = [one for one in line.waiting if one.klass != "batch"]
        wait = max(((one.eta_seconds or 0.0) + facts.now - one.waiting_since for one in waiting), default=0.0)
        if wait > facts.target_seconds:
            values: Values = {"line": line.name, "waiting": len(waiting)}
            yield "queue_waits", {**values, "seconds": wait, "target": facts.target_seconds}


def _budgets(facts: Facts) -> _Found:
    """Days begin anew tomorrow; a month's end is far."""
    for (policy, limit), used in facts.budgets.items():
        if limit.endswith("_per_month") and used > _NEAR:
            yield "budget_near_end", {"policy": policy, "limit": limit, "share": used}


_LOOKS: tuple[Callable[[Facts], _Found], ...] = (_parts, _backends, _lately, _lines, _budgets)


def _alert(code: str, values: Values) -> Alert:
    kind = _KINDS[code]
    message = kind.message.format_map({name: _spoken(name, value) for name, value in values.items()})
    return Alert(code=code, severity=kind.severity, values=values, message=message, todo=kind.todo)


def _spoken(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if name == "share":
        return f"{value:.0%}"
    return f"{value:.1f} s" if name in ("seconds", "target") else str(value)
