"""Which of a model's backends may be asked, and what is said where none may."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends.base import Readiness
from backends.errors import Broken, Rejected, Unreachable
from gateway.routing.health import Health
from gateway.routing.usable import usable

NOW = 10.0


def healthy() -> Health:
    health = Health()
    health.observe_probe(Readiness.READY, 0)
    return health


def failed_with(*errors: Exception) -> Health:
    health = healthy()
    for index, error in enumerate(errors):
        health.observe_failure(error, str(index), NOW)  # type: ignore[arg-type]
    return health


def probed(readiness: Readiness) -> Health:
    health = Health()
    health.observe_probe(readiness, NOW)
    return health


def failing() -> Health:
    return failed_with(Broken(), Broken(), Broken())


def busy() -> Health:
    return failed_with(Rejected(429))


def limited(seconds: int = 20) -> Health:
    return failed_with(Rejected(429, retry_after=str(seconds)))


def down() -> Health:
    return failed_with(Unreachable())


def warming() -> Health:
    return probed(Readiness.WARMING)


def misconfigured() -> Health:
    return probed(Readiness.MISCONFIGURED)


TROUBLED = (failing, busy, limited, down, warming, misconfigured)


@pytest.mark.parametrize("trouble", TROUBLED)
def test_where_others_take_requests_one_in_trouble_gets_none(trouble: Callable[[], Health]) -> None:
    assert usable({"a": healthy(), "b": trouble()}, NOW).shares == {"a": 1.0}


@pytest.mark.parametrize("trouble", [failing, busy, down])
def test_the_last_one_is_asked_in_full_though_it_fails(trouble: Callable[[], Health]) -> None:
    assert usable({"a": trouble()}, NOW).shares == {"a": 1.0}


def test_what_fails_is_asked_before_what_is_down() -> None:
    assert usable({"a": down(), "b": failing(), "c": busy(), "d": limited()}, NOW).shares == {"b": 1.0, "c": 1.0}
    assert usable({"a": down(), "d": limited()}, NOW).shares == {"a": 1.0}


def test_where_all_have_said_when_to_come_back_the_earliest_is_told() -> None:
    found = usable({"a": limited(20), "b": limited(7)}, NOW + 0.5)
    assert found.shares == {}
    assert found.retry_after == 7
    assert "a: It asked us to wait (429)." in found.why


def test_one_that_warms_up_is_not_asked_and_may_be_ready_at_the_next_look() -> None:
    found = usable({"a": warming(), "b": misconfigured(), "c": limited(20)}, NOW)
    assert found.shares == {}
    assert found.retry_after == 5


def test_where_a_model_has_no_backend_none_is_asked() -> None:
    assert usable({}, NOW).shares == {}


def test_one_that_recovers_beside_others_has_its_share_and_alone_has_all() -> None:
    recovered = down()
    recovered.observe_probe(Readiness.READY, NOW)
    assert usable({"a": healthy(), "b": recovered}, NOW).shares == {"a": 1.0, "b": pytest.approx(0.1)}
    assert usable({"b": recovered}, NOW).shares == {"b": 1.0}


def test_one_on_trial_gets_one_at_a_time_beside_others_and_alone_all() -> None:
    assert usable({"a": healthy(), "b": failing()}, NOW + 1).shares == {"a": 1.0, "b": 0.0}
    assert usable({"b": failing()}, NOW + 1).shares == {"b": 1.0}
