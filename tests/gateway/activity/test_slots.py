"""What a gateway counts in slots of two seconds, and what it tells of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.activity.slots import Recorder, Streamed, Told, Whose

ANNA = Whose("usr_anna", "large", "one")


def rows(told: Told) -> dict[tuple[str, str, str], tuple[int, int]]:
    return {(kind, name, what): (lately, minute) for kind, name, what, lately, minute in told.rows}


def closed(recorder: Recorder, *, slots: int = 1, own: dict[tuple[str, str, str], int] | None = None) -> Told:
    for _ in range(slots):
        recorder.close(2.0, own or {}, {})
    return recorder.told()


def test_a_request_counts_while_it_streams_and_each_token_once() -> None:
    recorder = Recorder()
    recorder.streamed("a", ANNA, Streamed(10, 0, 0, 3))
    recorder.close(2.0, {}, {})
    recorder.streamed("a", ANNA, Streamed(10, 10, 4, 8))
    recorder.ended("a")
    told = closed(recorder)
    for kind, name in (("subject", "usr_anna"), ("model", "large"), ("backend", "one")):
        assert rows(told)[kind, name, "completion_tokens"] == (8, 8)
        assert rows(told)[kind, name, "prompt_tokens"] == (10, 10)
        assert rows(told)[kind, name, "cached_tokens"] == (4, 4)
    assert told.history == [(5, 2), (0, 2)]


def test_a_prompt_that_was_estimated_too_long_is_not_counted_twice() -> None:
    recorder = Recorder()
    for prompt in (20, 12, 15):
        recorder.streamed("a", ANNA, Streamed(prompt))
    assert rows(closed(recorder))["model", "large", "prompt_tokens"] == (20, 20)


def test_who_waits_is_there_with_nothing_used_and_at_no_backend() -> None:
    recorder = Recorder()
    recorder.streamed("a", Whose("usr_anna", "large"), Streamed())
    told = rows(closed(recorder))
    assert told["subject", "usr_anna", "completion_tokens"] == (0, 0)
    assert not any(kind == "backend" for kind, _, _ in told)


def test_after_ten_seconds_it_is_no_longer_lately_and_after_a_minute_forgotten() -> None:
    recorder = Recorder()
    recorder.streamed("a", ANNA, Streamed(1, 0, 0, 1))
    figure = ("model", "large", "completion_tokens")
    assert rows(closed(recorder, slots=5))[figure] == (1, 1)
    assert rows(closed(recorder))[figure] == (0, 1)
    assert rows(closed(recorder, slots=24))[figure] == (0, 1)
    told = closed(recorder)
    assert figure not in rows(told)
    assert len(told.history) == 31
    assert len(closed(recorder, slots=150).history) == 150


def test_a_gateway_that_has_just_begun_says_how_few_seconds_it_speaks_of() -> None:
    assert closed(Recorder(), slots=2).seconds == 4.0
    assert closed(Recorder(), slots=9).seconds == 10.0


def test_totals_count_by_what_they_grew_and_anew_after_a_reset() -> None:
    recorder, figure = Recorder(), ("code", "queue_full", "failures")
    closed(recorder, own={figure: 3})
    assert rows(closed(recorder, own={figure: 5}))[figure] == (5, 5)
    assert rows(closed(recorder, own={figure: 1}))[figure] == (6, 6)


def test_what_an_engine_counted_before_this_process_is_no_event_of_now() -> None:
    recorder, figure = Recorder(), ("backend", "one", "preemptions")
    recorder.close(2.0, {}, {figure: 70})
    assert rows(recorder.told())[figure] == (0, 0)
    recorder.close(2.0, {}, {figure: 72})
    recorder.close(2.0, {}, {figure: 1})  # it was started anew
    assert rows(recorder.told())[figure] == (3, 3)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), max_size=70))
def test_what_is_kept_up_is_what_the_slots_come_to(slots: list[dict[str, int]]) -> None:
    recorder = Recorder()
    for number, slot in enumerate(slots):
        for name, tokens in slot.items():
            recorder.streamed(f"{number}{name}", Whose(name, "large"), Streamed(completion_tokens=tokens))
        recorder.close(2.0, {}, {})
    for name in "abc":
        amounts = [slot.get(name) for slot in slots]
        found = rows(recorder.told()).get(("subject", name, "completion_tokens"))
        minute = [amount for amount in amounts[-30:] if amount is not None]
        assert found == ((sum(filter(None, amounts[-5:])), sum(minute)) if minute else None)


def test_a_program_with_countless_names_costs_no_more_than_a_bounded_number_of_them() -> None:
    recorder = Recorder()
    for number in range(2000):
        recorder.streamed(str(number), Whose(f"app/{number}", "large"), Streamed(0, 0, 0, 1 + number % 500))
    told = rows(closed(recorder))
    assert told["model", "large", "completion_tokens"] == (501_000, 501_000)
    subjects = {name for kind, name, _ in told if kind == "subject"}
    assert len(subjects) == 200
    assert "app/499" in subjects  # with the most tokens
