"""Whether the load generator itself was the bottleneck of a run. Knows neither requests nor servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from backends.bench.stats import Spread, spread

CPU_LIMIT = 0.9
LAG_LIMIT_MS = 20.0  # a text of 30 tok/s has gaps of 33 ms
LATE_LIMIT_MS = 50.0

_TICK_S = 0.02


@dataclass(frozen=True, slots=True)
class Strain:
    """What a run took of the generator. Milliseconds; the CPU's share is of one core: it is one event loop."""

    cpu_share: float = 0.0
    loop_lag: Spread = field(default_factory=Spread)  # how late the loop turned to what was ready
    late_sends: Spread = field(default_factory=Spread)  # of conversations that had a time to begin at

    @property
    def bottlenecks(self) -> list[str]:
        """Empty where the figures are the server's."""
        cpu, lag, late = self.cpu_share, self.loop_lag.p95, self.late_sends.p95
        who = "it" if cpu > CPU_LIMIT / 2 else "other programs had the processor, and it"
        checks = [
            (cpu >= CPU_LIMIT, f"it computed {cpu:.0%} of the time (below {CPU_LIMIT:.0%} is sound)"),
            (lag >= LAG_LIMIT_MS, f"{who} read answers {lag:.0f} ms late (P95; below {LAG_LIMIT_MS:.0f} is sound)"),
            (late >= LATE_LIMIT_MS, f"it sent {late:.0f} ms late (P95; below {LATE_LIMIT_MS:.0f} is sound)"),
        ]
        return [reason for holds, reason in checks if holds]

    def to_dict(self) -> dict[str, Any]:
        return {
            "client_cpu_share": self.cpu_share,
            "client_p95_loop_lag_ms": self.loop_lag.p95,
            "client_p95_late_send_ms": self.late_sends.p95,
            "client_bottlenecks": self.bottlenecks,
        }


class StrainGauge:
    """`async with StrainGauge() as gauge:` around a run; `gauge.read()` after it."""

    def __init__(self) -> None:
        self._lags: list[float] = []
        self._late: list[float] = []

    async def __aenter__(self) -> StrainGauge:
        self._started, self._cpu = time.perf_counter(), time.process_time()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._elapsed, self._cpu = time.perf_counter() - self._started, time.process_time() - self._cpu
        self._ticking.cancel()
        with suppress(asyncio.CancelledError):
            await self._ticking

    def note_send(self, late_s: float) -> None:
        self._late.append(late_s)

    def read(self) -> Strain:
        return Strain(
            cpu_share=self._cpu / self._elapsed,
            loop_lag=spread(lag * 1000 for lag in self._lags),
            late_sends=spread(late * 1000 for late in self._late),
        )

    async def _tick(self) -> None:
        while True:
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._lags.extend(with_missed_ticks(max(0.0, time.perf_counter() - due)))


def with_missed_ticks(lag: float) -> Iterator[float]:
    """The lag of a tick, and of those that it kept from coming: else a long stop would count as one late tick."""
    yield lag
    while (lag := lag - _TICK_S) > 0:
        yield lag
