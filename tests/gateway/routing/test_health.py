"""One backend's states: what each event does to it, told at a time."""

from __future__ import annotations

import pytest

from backends.base import Readiness
from backends.errors import BackendError, Broken, Rejected, TimedOut, Unreachable
from gateway.routing.health import Health, State, Verdict

EXPECTED = 0.5


def ready(now: float = 0.0) -> Health:
    health = Health()
    health.observe_probe(Readiness.READY, now)
    return health


def fail(health: Health, now: float, times: int = 3, error: BackendError | None = None) -> None:
    for index in range(times):
        health.observe_failure(error or Broken(), f"{now} {index}", now)


def succeed(health: Health, now: float, times: int = 1) -> None:
    for _ in range(times):
        health.observe_first_token(now, EXPECTED, EXPECTED)


def test_one_that_nobody_has_looked_at_takes_nobody_and_one_that_is_ready_at_first_sight_takes_all() -> None:
    unseen = Health()
    assert unseen.state(0) is State.DOWN
    unseen.observe_probe(Readiness.DOWN, 1)
    assert unseen.verdict(1) == Verdict(State.DOWN, "It does not answer.", 1)
    assert ready().takes(0)
    assert ready().share(0) == 1.0


@pytest.mark.parametrize(
    ("readiness", "state"),
    [
        (Readiness.WARMING, State.WARMING),
        (Readiness.MISCONFIGURED, State.MISCONFIGURED),
        (Readiness.DOWN, State.DOWN),
    ],
)
def test_a_probe_says_how_it_is_and_how_it_is_again(readiness: Readiness, state: State) -> None:
    health = ready()
    health.observe_probe(readiness, 1)
    health.observe_probe(readiness, 2)
    assert health.state(2) is state
    assert not health.takes(2)
    assert health.verdict(2).why
    health.observe_probe(Readiness.READY, 3)
    assert health.takes(3)
    assert health.share(3) == pytest.approx(0.1)


def test_one_missed_probe_of_a_busy_engine_is_none() -> None:
    health = ready()
    for now in (1, 3, 5):
        health.observe_probe(Readiness.DOWN, now)
        assert health.takes(now)
        succeed(health, now + 1)
    assert health.share(6) == 1.0


def test_one_that_cannot_be_reached_is_down_at_once_until_a_probe_finds_it() -> None:
    health = ready()
    health.observe_failure(Unreachable(), "r", 1)
    assert health.state(1000) is State.DOWN
    health.observe_probe(Readiness.READY, 1000)
    assert health.takes(1000)


@pytest.mark.parametrize("error", [Broken(), TimedOut()])
def test_three_failures_in_a_row_open_the_breaker_and_a_success_between_begins_anew(error: BackendError) -> None:
    health = ready()
    fail(health, 1, 2, error)
    succeed(health, 1)
    fail(health, 1, 2, error)
    assert health.state(1) is State.HEALTHY
    fail(health, 1, 1, error)
    assert health.state(1) is State.FAILING
    assert not health.takes(1)


def test_a_ready_probe_does_not_close_the_breaker_of_one_that_never_answers() -> None:
    health = ready()
    fail(health, 1, error=TimedOut())
    health.observe_probe(Readiness.READY, 1.5)
    assert health.state(1.5) is State.FAILING


def test_half_of_the_latest_attempts_failing_opens_it_though_never_three_in_a_row() -> None:
    health = ready()
    for _ in range(4):
        fail(health, 1, 1)
        succeed(health, 1)
    assert health.takes(1)
    fail(health, 1, 2)
    assert health.state(1) is State.FAILING


def test_failures_of_long_ago_do_not_count_into_the_part_that_failed() -> None:
    health = ready()
    for _ in range(4):
        fail(health, 1, 1)
        succeed(health, 1)
    succeed(health, 100)
    fail(health, 100, 2)
    assert health.takes(100)


def test_after_its_cool_down_it_is_tried_with_one_at_a_time_and_two_successes_close_it() -> None:
    health = ready()
    fail(health, 10)
    until = health.verdict(10).until
    assert until == 11
    assert not health.takes(10.9)
    assert health.takes(11)
    assert health.share(11) == 0.0
    for opened in (10, 300):  # as the first time, so every time
        fail(health, opened)
        succeed(health, opened + 2)
        assert health.state(opened + 2) is State.FAILING
        succeed(health, opened + 3)
        assert health.state(opened + 3) is State.HEALTHY


def test_a_success_of_before_its_cool_down_is_over_is_no_trial() -> None:
    health = ready()
    fail(health, 10)
    succeed(health, 10.5, 5)
    assert health.state(10.5) is State.FAILING
    succeed(health, 11)
    assert health.state(11) is State.FAILING


def test_failed_trials_make_the_cool_down_longer_up_to_a_minute() -> None:
    health, now, pauses = ready(), 10.0, []
    fail(health, now)
    for _ in range(10):
        until = health.verdict(now).until
        assert until is not None
        pauses.append(until - now)
        now = until
        fail(health, now, 1)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


def test_one_that_breaks_again_soon_cools_down_longer_and_one_that_was_well_for_long_does_not() -> None:
    health = ready()
    fail(health, 10)
    succeed(health, 11, 2)
    fail(health, 12)
    assert health.verdict(12).until == 14
    succeed(health, 14, 2)
    fail(health, 200)
    assert health.verdict(200).until == 201


def test_after_recovery_its_share_grows_from_a_tenth_to_all_of_it() -> None:
    health = ready()
    fail(health, 10)
    succeed(health, 11, 2)
    shares = [health.share(11 + second) for second in range(0, 41, 5)]
    assert shares[0] == pytest.approx(0.1)
    assert shares[3] == pytest.approx(0.55)
    assert shares == sorted(shares)
    assert shares[6:] == [1.0, 1.0, 1.0]


def test_being_full_is_no_failure_but_a_moment_to_wait() -> None:
    health = ready()
    for now in range(20):
        fail(health, now, 10, Rejected(429))
        assert health.state(now) is State.BUSY
        fail(health, now, 10, Rejected(503))
        assert health.state(now) is State.BUSY
    assert not health.takes(19.9)
    assert health.takes(20)
    assert health.share(20) == 1.0


def test_a_first_token_ends_being_full() -> None:
    health = ready()
    fail(health, 1, 1, Rejected(429))
    succeed(health, 1.1)
    assert health.takes(1.1)


def test_when_to_come_back_is_honoured_whatever_comes_between() -> None:
    health = ready()
    fail(health, 1, 1, Rejected(429, retry_after="20"))
    fail(health, 2, 1, Rejected(429, retry_after="3"))
    fail(health, 3, 1, Rejected(429))
    succeed(health, 4)
    health.observe_probe(Readiness.READY, 5)
    assert health.state(20.9) is State.RATE_LIMITED
    assert health.verdict(5).until == 21
    assert health.takes(21)


def test_a_refused_credential_is_ours_to_mend_and_is_tried_again_later() -> None:
    health = ready()
    fail(health, 1, 1, Rejected(401))
    health.observe_probe(Readiness.READY, 2)
    assert health.state(2) is State.MISCONFIGURED
    assert health.takes(31)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_what_is_wrong_with_requests_says_nothing_of_the_engine(status: int) -> None:
    health = ready()
    fail(health, 1, 100, Rejected(status))
    assert health.takes(1)
    assert health.share(1) == 1.0


def test_one_request_that_makes_it_answer_500_does_not_open_it_but_five_in_a_row_do() -> None:
    health = ready()
    for _ in range(100):
        health.observe_failure(Rejected(500), "the same", 1)
    fail(health, 1, 3, Rejected(500))
    succeed(health, 1)
    fail(health, 2, 4, Rejected(500))
    assert health.takes(2)
    health.observe_failure(Rejected(500), "a fifth", 2)
    assert health.state(2) is State.FAILING


def test_a_500_is_no_failed_trial() -> None:
    health = ready()
    fail(health, 1)
    fail(health, 2, 1, Rejected(500))
    assert health.takes(2)


def test_slow_first_tokens_make_it_slower_to_choose_and_never_unhealthy() -> None:
    health = ready()
    for _ in range(50):
        health.observe_first_token(1, 100.0, EXPECTED)
    assert health.slowness(1) == pytest.approx(4, rel=0.01)
    assert health.takes(1)
    assert health.share(1) == 1.0
    assert health.slowness(31) == pytest.approx(2.5, rel=0.01)
    assert health.slowness(1000) == pytest.approx(1)


def test_quick_first_tokens_do_not_make_up_for_slow_ones_to_come() -> None:
    health = ready()
    for _ in range(50):
        health.observe_first_token(1, 0.001, EXPECTED)
    assert health.slowness(1) == 1.0


def heard(state: State, at: float, until: float | None = None) -> Verdict:
    return Verdict(state, "Another gateway says so.", at, until)


def test_what_others_saw_is_taken_over() -> None:
    for verdict in (heard(State.FAILING, 5, 9), heard(State.RATE_LIMITED, 5, 9), heard(State.DOWN, 5)):
        health = ready()
        health.hear(verdict)
        assert health.verdict(6) == verdict
        assert not health.takes(6)


@pytest.mark.parametrize("state", [State.FAILING, State.RATE_LIMITED, State.BUSY])
def test_what_others_saw_before_it_answered_here_is_old(state: State) -> None:
    health = ready()
    succeed(health, 5)
    health.hear(heard(state, 4, 9))
    assert health.takes(6)


def test_that_others_could_not_reach_it_before_it_was_found_ready_here_is_old() -> None:
    health = ready(5)
    health.hear(heard(State.DOWN, 4))
    assert health.takes(6)


def test_one_that_only_others_cannot_reach_comes_back_whole() -> None:
    health = ready()
    health.hear(heard(State.DOWN, 5))
    health.observe_probe(Readiness.READY, 5.2)
    assert health.share(5.2) == 1.0


def test_one_that_others_could_not_reach_first_comes_back_slowly_where_it_was_away_here_too() -> None:
    health = ready()
    health.hear(heard(State.DOWN, 5))
    health.observe_probe(Readiness.DOWN, 5.2)
    health.observe_probe(Readiness.READY, 6)
    assert health.share(6) == pytest.approx(0.1)


def test_when_others_tried_it_well_the_breaker_closes_here_too_and_its_share_grows_from_then() -> None:
    health = ready()
    fail(health, 5)
    health.hear(heard(State.HEALTHY, 4))
    assert health.state(5) is State.FAILING
    health.hear(heard(State.HEALTHY, 6.5))
    assert health.takes(7)
    assert health.share(6.5) == pytest.approx(0.1)


def test_good_news_of_others_does_not_make_reachable_what_is_not_reachable_here() -> None:
    health = ready()
    health.observe_failure(Unreachable(), "r", 5)
    health.hear(heard(State.HEALTHY, 6))
    assert health.state(6) is State.DOWN


def test_news_that_come_late_do_not_undo_newer_ones() -> None:
    health = ready()
    health.hear(heard(State.HEALTHY, 7))
    health.hear(heard(State.FAILING, 5, 60))
    assert health.takes(8)
