"""Which engines serve what, under which names and in which lines, and where a request may go among them."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.base import Fields, Load, ModelCard, Readiness, Refusal
from backends.errors import Broken, Rejected
from backends.fake import FakeBackend
from gateway.errors import EngineAway
from gateway.routing.components import lines_of
from gateway.routing.fleet import Fleet
from gateway.routing.journey import Journey
from gateway.routing.member import Member
from gateway.routing.prefixes import Chain
from gateway.routing.router import Wish, candidate, ways
from gateway.settings import BackendSettings


def member(name: str, *listed: str, backend: FakeBackend | None = None, **settings: Any) -> Member:
    given = {"name": name, "kind": "fake", "url": "http://nowhere", "max_concurrency": 4} | settings
    made = Member(BackendSettings.model_validate(given), backend or FakeBackend(name=name))
    made.serves([ModelCard(model, 4096) for model in listed])
    made.health.observe_probe(Readiness.READY, time.monotonic() - 100)
    return made


def fleet(*members: Member) -> Fleet:
    made = Fleet(members, {})
    made._arrange()
    return made


def wish(model: str = "m") -> Wish:
    fields: Fields = {"model": msgspec.Raw(msgspec.json.encode(model))}
    return Wish(model, "/v1/chat/completions", fields, (), "internal", 100, Chain())


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("xyzw"))))
def test_backends_share_a_line_exactly_where_models_lead_from_one_to_the_other(serve: dict[str, set[str]]) -> None:
    lines = lines_of(serve)
    reached = {name: {name} for name in serve}
    for _ in serve:
        for one in serve:
            for other in serve:
                if serve[one] & serve[other] or reached[one] & reached[other]:
                    reached[one] |= reached[other]
    for one in serve:
        assert lines[one] == next(name for name in serve if name in reached[one])


def test_tiers_do_not_share_a_line_and_the_lower_one_comes_first() -> None:
    found = ways(fleet(member("out", "m", tier=1), member("a", "m"), member("b", "m")), wish())
    assert [(way.line, {choice.backend for choice in way.choices}) for way in found] == [
        ("a", {"a", "b"}),
        ("out", {"out"}),
    ]


def test_an_ollama_model_has_both_its_names() -> None:
    backend = FakeBackend(name="o")
    backend.kind = "ollama"
    named = member("o", "qwen3:latest", "other:7b", backend=backend, models={"chat": "qwen3", "more": "other:7b"})
    assert named.names == {"chat": "qwen3", "more": "other:7b"}
    assert named.cards["chat"] == ModelCard("chat", 4096)


@pytest.mark.parametrize(("kind", "served"), [("openai", {"m", "unlisted"}), ("vllm", {"m"})])
def test_only_a_managed_service_is_believed_to_have_what_it_does_not_list(kind: str, served: set[str]) -> None:
    backend = FakeBackend(name="a")
    backend.kind = kind
    assert set(member("a", "m", backend=backend, models=["m", "unlisted"]).names) == served


def test_what_an_engine_can_do_is_asked_under_its_own_name_of_the_model() -> None:
    class Choosy(FakeBackend):
        def refusal(self, path: str, fields: Fields) -> Refusal | None:
            return None if msgspec.json.decode(fields["model"]) == "/srv/own" else Refusal("not mine")

    assert ways(fleet(member("a", "/srv/own", backend=Choosy(name="a"), models={"m": "/srv/own"})), wish())


def test_an_engine_whose_figures_are_stale_counts_as_full() -> None:
    lively, stale = member("a", "m"), member("b", "m")
    lively.load = stale.load = Load(running=0)
    stale.stale = "Its load figures cannot be read."
    assert candidate(stale).seconds(100) > candidate(lively).seconds(100)
    assert candidate(stale).others == 4


def test_an_engine_on_trial_is_tried_though_it_was_slow() -> None:
    sick, well = member("a", "m", weight=0.1), member("b", "m")
    for number in range(3):
        sick.health.observe_failure(Broken("cut"), str(number), time.monotonic() - 2)
    assert candidate(sick).seconds(1000) < candidate(well).seconds(1000)


def test_what_an_engine_has_from_elsewhere_counts_and_ours_does_not() -> None:
    one = member("a", "m")
    one.load = Load(running=3)
    with one.used():
        assert candidate(one).others == 2


def test_where_every_engine_wants_to_be_left_alone_the_earliest_time_is_told() -> None:
    one, other = member("a", "m"), member("b", "m")
    for each, seconds in ((one, "40"), (other, "20")):
        each.health.observe_failure(Rejected(429, b"", seconds), "1", time.monotonic())
    with pytest.raises(EngineAway) as refused:
        Journey(fleet(one, other), wish()).ways()
    assert 18 <= (refused.value.retry_after or 0) <= 20


def test_an_engine_that_failed_a_request_is_asked_again_only_where_there_is_no_other() -> None:
    journey = Journey(fleet(member("a", "m"), member("b", "m")), wish())
    journey.failed.add("a")
    assert [choice.backend for way in journey.ways() for choice in way.choices] == ["b"]
    assert journey.is_open()
    journey.failed.add("b")
    assert len(journey.ways()[0].choices) == 2
    assert not journey.is_open()


def test_the_least_of_several_engines_is_what_people_are_told_of_a_model() -> None:
    one, other = member("a", "m"), member("b")
    other.serves([ModelCard("m", 1024)])
    assert fleet(one, other).models() == [ModelCard("m", 1024)]
