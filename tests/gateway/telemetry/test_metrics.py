"""What the door exports: figures of what happened, under labels of which nobody outside can make more."""

from __future__ import annotations

import json

import pytest

from backends.base import Load
from backends.edges import FIRST_TOKEN, INTER_TOKEN, LATENCY
from backends.errors import Rejected
from backends.fake import FakeBackend, chat_script
from gateway.scope import RequestScope
from gateway.telemetry.families import Counters, Histograms
from gateway.telemetry.metrics import OTHER, Metrics
from tests.gateway.conftest import RunningDoor, StartDoor, ask, eventually
from tests.gateway.telemetry.exported import Sample, exported
from tests.gateway.test_quotas_at_the_door import allow

ALL_OF_VLLM_FIRST_TOKEN = {0.001, 0.005, 0.01, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 640, 2560}
ALL_OF_VLLM_LATENCY = {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
ALL_OF_VLLM_INTER_TOKEN = {
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10,
    20,
    40,
    80,
}


def of(door: RunningDoor) -> dict[Sample, float]:
    assert door.app.door is not None
    return exported(door.app.door.metrics.render())


def value(door: RunningDoor, name: str, **labels: str) -> float:
    return of(door).get((name, frozenset(labels.items())), 0.0)


def request(**fields: object) -> RequestScope:
    scope = RequestScope("r", "POST", "/v1/x", {}, 0, 0, None, None, 100.0)  # type: ignore[arg-type]
    for name, given in fields.items():
        setattr(scope, name, given)
    return scope


@pytest.mark.parametrize("edges", [FIRST_TOKEN, INTER_TOKEN, LATENCY])
def test_edges_of_histograms_only_rise(edges: tuple[float, ...]) -> None:
    assert list(edges) == sorted(set(edges))


def test_edges_are_all_of_vllms_and_finer_ones_below() -> None:
    assert set(FIRST_TOKEN) >= ALL_OF_VLLM_FIRST_TOKEN
    assert set(INTER_TOKEN) >= ALL_OF_VLLM_INTER_TOKEN
    assert set(LATENCY) >= ALL_OF_VLLM_LATENCY
    assert (INTER_TOKEN[0], LATENCY[0]) == (0.0005, 0.005)


def test_what_is_on_an_edge_belongs_below_it() -> None:
    histograms = Histograms("h", "h", (1.0, 2.0), ("of",))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        histograms.observe(seconds, "x")
    (family,) = histograms.collect()
    told = [(sample.name, sample.labels.get("le"), sample.value) for sample in family.samples]
    buckets = [("h_bucket", "1.0", 2.0), ("h_bucket", "2.0", 3.0), ("h_bucket", "+Inf", 4.0)]
    assert told == [*buckets, ("h_count", None, 4.0), ("h_sum", None, 12.0)]


def test_a_counter_without_labels_is_there_before_anything_has_happened() -> None:
    (family,) = Counters("c", "c").collect()
    assert [(sample.name, sample.value) for sample in family.samples] == [("c_total", 0.0)]


def test_a_clients_words_make_no_label() -> None:
    metrics = Metrics(lambda name: name == "known")
    before = len(exported(metrics.render()))
    for number in range(300):
        metrics.answered(request(model=f"made-up-{number}", outcome="model_not_found", status=404), "api", 0.1)
        metrics.book(f"made-up-{number}", 1, 0, 1)
        metrics.answered(request(outcome=f'a"code {number}', status=502), "", 0.1)
    told = exported(metrics.render())
    assert {dict(labels).get("model") for _, labels in told} == {None, "", OTHER}
    assert told["sekisho_failures_total", frozenset({("code", OTHER)})] == 300
    assert len(told) < before + 60


def test_an_engine_that_makes_up_codes_makes_a_hundred_at_most() -> None:
    metrics = Metrics(lambda name: True)
    for number in range(500):
        metrics.answered(request(outcome=f"code_{number}", status=502), "", 0.1)
    codes = [labels for name, labels in exported(metrics.render()) if name == "sekisho_failures_total"]
    assert len(codes) == 101


def test_the_time_of_a_token_is_that_of_those_after_the_first_of_each_choice() -> None:
    metrics = Metrics(lambda name: True)
    fields = {"model": "m", "dispatched": 100.0, "first_token": 101.0, "upstream_ended": 103.0, "choices": 2}
    metrics.answered(request(**fields, tokens={"completion_tokens": 10}), "api", 4.0)
    metrics.answered(request(**fields, tokens={"completion_tokens": 2}), "api", 4.0)  # none after the first
    told, m = exported(metrics.render()), frozenset({("model", "m"), ("class", "api")})
    assert (told["sekisho_tpot_seconds_count", m], told["sekisho_tpot_seconds_sum", m]) == (1, 0.5)
    assert (told["sekisho_ttft_seconds_sum", m], told["sekisho_e2e_seconds_sum", m]) == (2, 8)


async def test_what_alerts_wait_for_is_there_before_it_happens(door: RunningDoor) -> None:
    told = of(door)
    for name, label, awaited in (
        ("sekisho_failures_total", "code", ("queue_full", "queue_timeout")),
        ("sekisho_auth_failures_total", "reason", ("unknown_key", "malformed", "token", "throttled")),
        ("sekisho_quota_refusals_total", "limit", ("requests_per_minute", "cost_per_month")),
    ):
        for value_ in awaited:
            assert told[name, frozenset({(label, value_)})] == 0


async def test_an_answer_is_in_every_figure_of_it(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend(lambda body: chat_script(("a", "b", "c"), gap=0.01)))
    async with door.post(ask()) as response:
        await response.read()
    labels = {"route": "/v1/chat/completions", "model": "fake", "status": "200", "class": "api"}
    await eventually(lambda: value(door, "sekisho_requests_total", **labels) == 1)
    for name in ("e2e", "ttft", "tpot"):
        assert value(door, f"sekisho_{name}_seconds_count", **{"model": "fake", "class": "api"}) == 1
    assert value(door, "sekisho_queue_seconds_count", **{"model": "fake", "class": "api"}) == 1
    assert value(door, "sekisho_upstream_seconds_count", backend="fake") == 1
    assert value(door, "sekisho_upstream_seconds_sum", backend="fake") > 0.02
    assert value(door, "sekisho_overhead_seconds_count") == 1
    assert value(door, "sekisho_redis_seconds_count") > 1
    assert value(door, "sekisho_tokens_total", model="fake", kind="completion") == 3
    assert value(door, "sekisho_permits", backend="fake") == door.settings.max_concurrency
    assert value(door, "sekisho_reservations") == 0
    assert value(door, "sekisho_slo_requests_total", **{"model": "fake", "class": "api", "result": "met"}) == 1


async def test_models_that_do_not_exist_are_one_label(start_door: StartDoor) -> None:
    door = await start_door()
    for number in range(3):
        async with door.post(ask(model=f"nothing-{number}")) as response:
            assert response.status == 404
    labels = {"route": "/v1/chat/completions", "model": OTHER, "status": "404", "class": "api"}
    await eventually(lambda: value(door, "sekisho_requests_total", **labels) == 3)
    assert "nothing-" not in json.dumps([sorted(sample[1]) for sample in of(door)])


async def test_a_refusal_over_a_limit_is_counted_under_the_limits_name(start_door: StartDoor) -> None:
    door = await start_door(key_cache_seconds=0)
    await allow(door, requests_per_minute=1)
    for _ in range(3):
        async with door.post(ask()) as response:
            await response.read()
    await eventually(lambda: value(door, "sekisho_quota_refusals_total", limit="requests_per_minute") == 2)


async def test_a_backend_is_in_one_state_and_a_failed_one_shows_its_circuit(start_door: StartDoor) -> None:
    door = await start_door()
    assert door.app.door is not None
    states = lambda: {  # noqa: E731
        dict(labels)["state"]: on for (name, labels), on in of(door).items() if name == "sekisho_backend_state"
    }
    assert [state for state, on in states().items() if on] == ["healthy"]
    health = door.app.door.fleet.members["fake"].health
    for number in range(20):
        health.observe_failure(Rejected(500, b"{}"), f"r{number}", 1e9)
    found = states()
    assert (found["failing"], sum(found.values())) == (1, 1)


class Telling(FakeBackend):
    """An engine that is rather full, and does not say how many wait."""

    async def load(self) -> Load:
        return Load(running=3, kv_use=0.93, preemptions=7)


async def test_what_an_engine_says_of_its_load_is_shown_and_nothing_in_the_place_of_what_it_does_not_say(
    start_door: StartDoor,
) -> None:
    door = await start_door(Telling())
    fake = frozenset({("backend", "fake")})
    await eventually(lambda: of(door).get(("sekisho_backend_kv_usage_ratio", fake)) == 0.93)
    assert of(door)["sekisho_backend_running", fake] == 3
    assert of(door)["sekisho_backend_preemptions_total", fake] == 7
    assert ("sekisho_backend_waiting", fake) not in of(door)


async def test_a_budget_is_told_by_its_policy_without_its_owners_name(
    start_door: StartDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.quotas.nearing._SECONDS", 0.01)
    door = await start_door(key_cache_seconds=0)
    await allow(door, requests_per_day=2)
    async with door.post(ask()) as response:
        await response.read()
    labels = {"policy": "all", "limit": "requests_per_day"}
    await eventually(lambda: value(door, "sekisho_quota_used_ratio", **labels) == 0.5)
    assert of(door)["sekisho_quota_near_end", frozenset(labels.items())] == 0


async def test_an_identity_provider_that_does_not_answer_is_away(start_door: StartDoor) -> None:
    issuer = "http://127.0.0.1:9/realm"
    door = await start_door(issuers=[{"issuer": issuer, "client_id": "sekisho"}])
    await eventually(lambda: value(door, "sekisho_identity_provider_away", issuer=issuer) == 1)
