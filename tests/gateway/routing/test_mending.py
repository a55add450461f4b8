"""What another backend can mend, and how long one wants to be left alone."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from backends.errors import BackendError, Broken, Rejected, TimedOut, Unreachable
from gateway.routing.mending import mendable, wanted_pause


@pytest.mark.parametrize("error", [Unreachable(), TimedOut(), Broken()])
def test_what_the_transport_lost_can_be_mended_however_often(error: BackendError) -> None:
    assert mendable(error, [error, error])


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 503])
def test_what_is_about_us_or_the_moment_can_be_mended_however_often(status: int) -> None:
    assert mendable(Rejected(status), [Rejected(status), Rejected(500)])


@pytest.mark.parametrize("status", [400, 405, 413, 415, 422])
def test_what_is_wrong_with_the_request_is_wrong_everywhere(status: int) -> None:
    assert not mendable(Rejected(status))


@pytest.mark.parametrize("status", [500, 501, 502, 504])
def test_an_error_of_the_engine_is_tried_once_elsewhere_and_then_is_the_requests(status: int) -> None:
    assert mendable(Rejected(status), [Unreachable(), Rejected(429), Rejected(503)])
    assert not mendable(Rejected(status), [Rejected(500)])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *[("7", 7.0), ("0.5", 0.5), ("999999", 3600.0), ("inf", 3600.0)],
        *[(None, None), ("", None), ("0", None), ("-3", None), ("soon", None), ("nan", None)],
        ("Wed, 99 Foo 2020", None),
    ],
)
def test_a_pause_is_a_number_of_seconds_within_bounds(header: str | None, seconds: float | None) -> None:
    assert wanted_pause(header) == seconds


def test_a_pause_may_be_a_date() -> None:
    pause = wanted_pause(formatdate(time.time() + 100, usegmt=True))
    assert pause is not None
    assert 90 < pause <= 100
    assert wanted_pause(formatdate(time.time() - 100, usegmt=True)) is None
