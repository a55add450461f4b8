"""A snapshot as figures and rows."""

from __future__ import annotations

import msgspec

from gateway.activity.shown import BackendActivity, ModelActivity, SubjectActivity
from gateway.alerts import Alert
from gateway.cli.top.rows import Waits, picture
from gateway.queueing.administration import DrainShown, LineShown
from tests.gateway_cli.top.seen import NOW, engine, request, snapshot


def test_who_runs_is_counted_against_all_that_may_and_who_waits_by_class() -> None:
    requests = (
        request(1),
        request(2, klass="interactive"),
        request(7, state="waiting"),
        request(40, state="waiting"),
        request(3, state="waiting", klass="batch"),
    )
    head = picture(snapshot(requests, engines=(engine(), engine("gpu-2", capacity=4)))).head
    assert (head.running, head.permits, head.gateways, head.at) == (2, 12, 2, NOW)
    assert list(head.waits) == [Waits("interactive", 1, 0, None), Waits("api", 1, 2, 40), Waits("batch", 0, 1, 3)]


def test_the_cache_that_is_told_of_is_the_fullest() -> None:
    engines = (engine(kv_use=0.2), engine("gpu-2", kv_use=0.9), engine("cloud", kv_use=None))
    assert picture(snapshot(engines=engines)).head.fullest == ("gpu-2", 0.9)
    assert picture(snapshot(engines=(engine(kv_use=None),))).head.fullest is None


def test_the_share_that_was_cached_is_of_what_the_engines_have_counted() -> None:
    total = ModelActivity(id="", prompt_tokens=1000, counted_prompt_tokens=200, cached_tokens=150)
    assert picture(snapshot(total=total)).head.cached == 0.75
    assert picture(snapshot(total=ModelActivity(id="", prompt_tokens=10))).head.cached is None


def test_preemptions_are_of_all_engines_that_say_something_of_them() -> None:
    counts = {"a": 2, "b": 1, "c": None}
    backends = [BackendActivity(name=name, preemptions=count) for name, count in counts.items()]
    assert picture(snapshot(backends=backends)).head.preemptions == 3
    assert picture(snapshot(backends=backends[2:])).head.preemptions is None


def test_the_most_frequent_failure_comes_first_and_engines_that_take_nobody_are_named() -> None:
    engines = (engine(), engine("gpu-2", state="down", share=0.0, why="It does not answer."))
    head = picture(snapshot(engines=engines, failures={"a": 1, "queue_full": 9})).head
    assert head.failures == [("queue_full", 9), ("a", 1)]
    assert head.unfit == ["gpu-2 is down: It does not answer."]


def test_what_else_needs_attention_is_told_once() -> None:
    codes = ("no_engine", "backend_away", "kv_full")
    some = [Alert(code=code, severity="warning", values={}, message=f"{code}.", todo="") for code in codes]
    assert picture(snapshot(alerts=tuple(some))).head.alerts == ["no_engine.", "kv_full."]


def test_a_model_has_its_row_while_nobody_uses_it_and_says_that_it_is_draining() -> None:
    seen = snapshot((request(5, state="waiting"),), models=[])
    seen.queue.draining.append(DrainShown(id="large", draining=True, since=NOW))
    (row,) = picture(seen).models
    assert (row.id, row.draining, row.running, row.waiting, row.longest, row.out_speed) == ("large", True, 0, 1, 5, 0.0)


def test_an_engine_shows_its_turns_and_why_it_is_as_it_is() -> None:
    backends = [BackendActivity(name="gpu-1", completion_tokens_per_second=9.0, preemptions=4)]
    (row,) = picture(snapshot(engines=(engine(stale="It says so."),), backends=backends)).backends
    assert (row.running, row.capacity, row.out_speed, row.preemptions, row.why) == (1, 8, 9.0, 4, "It says so.")


def test_people_are_those_who_used_something_and_those_who_wait_for_their_first_word() -> None:
    subjects = (
        SubjectActivity(id="usr_a", name="Anna", prompt_tokens=5, completion_tokens=7, completion_tokens_today=70),
    )
    rows = picture(snapshot((request(1), request(4, "app/eve", "waiting")), subjects)).people
    assert [(row.id, row.name, row.running, row.waiting, row.longest) for row in rows] == [
        ("usr_a", "Anna", 1, 0, None),
        ("app/eve", "", 0, 1, 4),
    ]
    assert (rows[0].minute, rows[0].today) == (12, 70)


def test_a_request_tells_whose_it_is_and_for_how_long_it_has_been_there() -> None:
    running, waiting = picture(snapshot((request(9, waiting_since=NOW - 30), request(4, "usr_b", "waiting")))).requests
    assert (running.name, running.age, running.backend, running.place) == ("Anna", 9, "gpu-1", None)
    assert (waiting.name, waiting.age, waiting.backend, waiting.place, waiting.eta) == ("", 4, "", 4, 6.0)


def test_tables_that_are_longer_than_what_was_told_are_named() -> None:
    seen = snapshot(has_more=True)
    assert picture(seen).cut == {"people"}
    more = seen._replace(queue=msgspec.structs.replace(seen.queue, lines=[_with_more(seen.queue.lines[0])]))
    assert picture(more).cut == {"people", "requests"}


def _with_more(line: LineShown) -> LineShown:
    return msgspec.structs.replace(line, has_more=True)


def test_clocks_that_disagree_make_no_negative_time() -> None:
    assert picture(snapshot((request(1, running_since=NOW + 3),))).requests[0].age == 0
