"""Days and months in their zone: always one of two holds the server's now, whatever the calendar does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import pytest

from gateway.quotas.periods import spans

ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"]
HOUR_MS = 3_600_000


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("kind", "form"), [("day", "%Y%m%d"), ("month", "%Y%m")])
def test_every_moment_near_is_in_the_period_of_its_date(zone: str, kind: Literal["day", "month"], form: str) -> None:
    info = ZoneInfo(zone)
    start = datetime(2017, 12, 30, tzinfo=UTC).timestamp() * 1000  # zones that have since given up summer time, too
    for hour in range(0, 24 * 400, 5):
        now = round(start) + hour * HOUR_MS
        first, second = spans(kind, info, now)
        for skew in (-11, 0, 11):
            there = now + skew * HOUR_MS
            name = first.name if there < first.end_ms else second.name
            assert there < second.end_ms
            assert name == datetime.fromtimestamp(there / 1000, info).strftime(form)
