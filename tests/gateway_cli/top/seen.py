"""Snapshots for the tests of `sekisho top`: a gateway at ten in the morning, and what may be wrong with it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gateway.activity.shown import ActivityShown, BackendActivity, History, ModelActivity, SubjectActivity
from gateway.alerts import Alert
from gateway.cli.top.client import Snapshot
from gateway.queueing.administration import BackendShown, Counts, LineShown, QueueShown, RequestShown
from gateway.routing.shown import BackendShown as EngineShown
from gateway.routing.shown import Ordered
from gateway.scope import QueueClass

NOW = 1_800_000_000
WIDE = "社内ポータルの田中一郎さん"
HOSTILE = "[red]\x1b[2J\u202eeve\n\x07"


def request(
    number: int, subject: str = "usr_a", state: Literal["running", "waiting"] = "running", **more: Any
) -> RequestShown:
    fields: dict[str, Any] = {
        "id": f"{number:032x}",
        "line": "one",
        "backend": "gpu-1" if state == "running" else None,
        "state": state,
        "klass": "api",
        "subject": subject,
        "model": "large",
        "tokens": 500,
        "kv_tokens": 500,
        "waiting_since": NOW - number,
        "running_since": NOW - number if state == "running" else None,
        "place": number if state == "waiting" else None,
        "eta_seconds": 1.5 * number if state == "waiting" else None,
    }
    return RequestShown(**fields | more)


def engine(name: str = "gpu-1", **more: Any) -> EngineShown:
    fields: dict[str, Any] = {
        "name": name,
        "kind": "native",
        "line": "one",
        "tier": 0,
        "external": False,
        "models": ["large"],
        "capacity": 8,
        "state": "healthy",
        "why": "",
        "retry_seconds": None,
        "share": 1.0,
        "held": 2,
        "running": 2,
        "waiting": 0,
        "kv_use": 0.5,
        "stale": "",
        "prompt_tokens_per_second": 1000.0,
        "slowness": 1.0,
        "weight": 1.0,
        "order": Ordered(),
    }
    return EngineShown(**fields | more)


def snapshot(
    requests: tuple[RequestShown, ...] = (request(1), request(2, "usr_b", "waiting")),
    subjects: tuple[SubjectActivity, ...] = (SubjectActivity(id="usr_a", name="Anna", completion_tokens=90),),
    engines: tuple[EngineShown, ...] = (engine(),),
    alerts: tuple[Alert, ...] = (),
    **activity: Any,
) -> Snapshot:
    of = {state: [one for one in requests if one.state == state] for state in ("running", "waiting")}
    klasses: tuple[QueueClass, ...] = ("interactive", "api", "batch")
    counts = {
        klass: Counts(
            running=sum(one.klass == klass for one in of["running"]),
            waiting=sum(one.klass == klass for one in of["waiting"]),
        )
        for klass in klasses
    }
    rooms = [
        BackendShown(
            name=one.name,
            capacity=one.capacity,
            running=sum(it.backend == one.name for it in of["running"]),
            kv_tokens=None,
            kv_tokens_in_use=0,
        )
        for one in engines
    ]
    line = LineShown(
        name="one", models=("large",), backends=rooms, classes=counts, running=of["running"], waiting=of["waiting"],
        has_more=False,
    )  # fmt: skip
    told: dict[str, Any] = {
        "at": NOW,
        "gateways": 2,
        "total": ModelActivity(id="", completion_tokens_per_second=312.0, ttft_p50=0.3, ttft_p95=1.9, requests=120),
        "failures": {},
        "history": History(slot_seconds=2.0, prompt_tokens_per_second=[0, 9], completion_tokens_per_second=[1, 8]),
        "models": [ModelActivity(id="large", completion_tokens_per_second=312.0, requests=120)],
        "backends": [BackendActivity(name="gpu-1", preemptions=0)],
        "subjects": list(subjects),
        "has_more": False,
    }
    queue = QueueShown(lines=[line], draining=[])
    return Snapshot(msgspec.convert(told | activity, ActivityShown), queue, list(engines), list(alerts))
