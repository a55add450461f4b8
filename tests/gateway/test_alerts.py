"""What operators are told to act on, from facts of one moment."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from gateway.activity.shown import ActivityShown, BackendActivity, History, ModelActivity
from gateway.alerts import Facts, alerts
from gateway.queueing.administration import Counts, LineShown, RequestShown
from gateway.routing.shown import BackendShown, Ordered

NOW = 1000.0
BACKEND = BackendShown(
    name="gpu",
    kind="vllm",
    line="gpu",
    tier=0,
    external=False,
    models=["m"],
    capacity=8,
    state="healthy",
    why="",
    retry_seconds=None,
    share=1.0,
    held=0,
    running=0,
    waiting=0,
    kv_use=0.5,
    stale="",
    prompt_tokens_per_second=1.0,
    slowness=1.0,
    weight=1.0,
    order=Ordered(),
)
CALM = Facts(
    away=False,
    ready=True,
    backends=[BACKEND],
    providers_away=[],
    budgets={("all", "tokens_per_month"): 0.9, ("all", "requests_per_day"): 1.0},
    activity=None,
    lines=[],
    target_seconds=2.0,
    now=NOW,
)


def backend(**fields: Any) -> list[BackendShown]:
    return [msgspec.structs.replace(BACKEND, **fields)]


def lately(failures: dict[str, int] | None = None, preemptions: int = 0, **model: Any) -> ActivityShown:
    """Of the last minute, in which one model answered 100 requests, unless it is told otherwise."""
    one = ModelActivity(id="m", **{"requests": 100, "goodput": 1.0, "ttft_p95": 1.0} | model)
    return ActivityShown(
        at=0,
        gateways=1,
        total=msgspec.structs.replace(one, id=""),
        failures=failures or {},
        history=History(slot_seconds=2.0, prompt_tokens_per_second=[], completion_tokens_per_second=[]),
        models=[one],
        backends=[BackendActivity(name="gpu", preemptions=preemptions)],
        subjects=[],
        has_more=False,
    )


def waiting(klass: Any, since: float, eta: float | None) -> LineShown:
    request = RequestShown(
        id="r",
        line="gpu",
        backend=None,
        state="waiting",
        klass=klass,
        subject="usr_a",
        model="m",
        tokens=1,
        kv_tokens=1,
        waiting_since=int(NOW - since),
        running_since=None,
        place=1,
        eta_seconds=eta,
    )
    counts = {klass: Counts(running=0, waiting=1)}
    return LineShown(
        name="gpu", models=("m",), backends=[], classes=counts, running=[], waiting=[request], has_more=False
    )


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"activity": lately()},
        {"activity": lately({"queue_full": 0, "invalid_api_key": 50, "engine_error": 5})},
        {"activity": lately(requests=9, goodput=0.0, ttft_p95=9.0, failures={"engine_error": 9})},
        {"activity": lately(ttft_p95=None, goodput=None)},
        {"activity": lately(preemptions=5)},
        {"backends": backend(state="drained", why="An administrator has drained it.")},
        {"backends": backend(state="busy", why="It says it is full (429).", kv_use=0.9)},
        {"backends": backend(kv_use=None)},
        {"lines": [waiting("api", 1.0, 1.0)]},
        {"lines": [waiting("batch", 600.0, 600.0)]},
    ],
)
def test_nobody_is_bothered_while_all_is_as_promised(facts: dict[str, Any]) -> None:
    assert alerts(CALM._replace(**facts)) == []


@pytest.mark.parametrize(
    ("facts", "code", "severity", "values"),
    [
        ({"away": True}, "store_away", "critical", {}),
        ({"ready": False}, "no_engine", "critical", {}),
        ({"providers_away": ["https://idp"]}, "provider_away", "warning", {"issuer": "https://idp"}),
        (
            {"backends": backend(state="down", why="It does not answer.")},
            "backend_away",
            "warning",
            {"backend": "gpu", "state": "down", "why": "It does not answer."},
        ),
        (
            {"backends": backend(stale="It says nothing.")},
            "figures_stale",
            "warning",
            {"backend": "gpu", "why": "It says nothing."},
        ),
        ({"backends": backend(kv_use=0.91)}, "kv_full", "warning", {"backend": "gpu", "share": 0.91}),
        (
            {"activity": lately({"engine_error": 4, "internal_error": 2})},
            "requests_fail",
            "critical",
            {"failed": 6, "share": 0.06},
        ),
        (
            {"activity": lately({"queue_full": 1, "queue_timeout": 2})},
            "queue_refuses",
            "warning",
            {"refused": 3},
        ),
        (
            {"activity": lately(ttft_p95=2.5)},
            "first_token_slow",
            "warning",
            {"model": "m", "seconds": 2.5, "target": 2.0},
        ),
        ({"activity": lately(goodput=0.94)}, "goodput_low", "warning", {"model": "m", "share": 0.94}),
        ({"activity": lately(preemptions=6)}, "preemptions", "warning", {"backend": "gpu", "count": 6}),
        (
            {"lines": [waiting("interactive", 1.0, 1.5)]},
            "queue_waits",
            "warning",
            {"line": "gpu", "waiting": 1, "seconds": 2.5, "target": 2.0},
        ),
        (
            {"lines": [waiting("api", 3.0, None)]},
            "queue_waits",
            "warning",
            {"line": "gpu", "waiting": 1, "seconds": 3.0, "target": 2.0},
        ),
        (
            {"budgets": {("all", "cost_per_month"): 0.95}},
            "budget_near_end",
            "info",
            {"policy": "all", "limit": "cost_per_month", "share": 0.95},
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_values_a_sentence_and_what_to_do(
    facts: dict[str, Any], code: str, severity: str, values: dict[str, Any]
) -> None:
    (found,) = alerts(CALM._replace(**facts))
    assert (found.code, found.severity, found.values) == (code, severity, values)
    assert not re.search(r"[{}]", found.message + found.todo)
    for value in values.values():
        assert isinstance(value, float) or str(value) in found.message
    assert found.todo.endswith(".")


def test_figures_are_spoken_as_people_read_them() -> None:
    slow, low = alerts(CALM._replace(activity=lately(ttft_p95=2.54, goodput=0.5)))
    assert slow.message == "m: one answer in twenty begins after 2.5 s or later; the target is 2.0 s."
    assert low.message == "m: only 50% of the answers of the last minute were as promised."


def test_the_gravest_comes_first() -> None:
    facts = CALM._replace(
        ready=False,
        away=True,
        backends=backend(state="down", kv_use=1.0),
        budgets={("all", "tokens_per_month"): 1.0},
    )
    assert [one.code for one in alerts(facts)] == [
        "store_away",
        "no_engine",
        "backend_away",
        "kv_full",
        "budget_near_end",
    ]
