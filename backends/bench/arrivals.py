"""When conversations begin."""

from __future__ import annotations

import math
import random
from itertools import accumulate

from backends.bench.config import BenchConfig, BenchError


def arrivals(config: BenchConfig, recorded: list[float | None]) -> list[float]:
    """Seconds from the start of each conversation. `recorded` has those of a log; BenchError where it lacks one.

    Gaps are Gamma(burstiness, mean / burstiness) around the mean that the rate asks for, which a ramp moves from
    conversation to conversation; all are rescaled to the total of their means, as vLLM does: the offered load is the
    one asked for, whatever the seed. Where several come together, so do their gaps.
    """
    if config.replay_speed is not None:
        return _replayed(recorded, config.replay_speed)
    groups = math.ceil(len(recorded) / config.burst_size)
    means = [config.burst_size / rate for rate in _rates(config, groups)]
    times = _times(means, config.burstiness, random.Random(config.seed))
    return [times[index // config.burst_size] for index in range(len(recorded))]


def _rates(config: BenchConfig, count: int) -> list[float]:
    start, end = config.ramp_up_start_rps, config.ramp_up_end_rps
    if start is None or end is None:
        return [config.request_rate] * count
    shares = [index / max(count - 1, 1) for index in range(count)]
    if config.ramp_up_strategy == "linear":
        return [start + (end - start) * share for share in shares]
    return [start * (end / start) ** share for share in shares]


def _times(means: list[float], burstiness: float, rng: random.Random) -> list[float]:
    if math.isinf(burstiness):
        return list(accumulate(means))
    times = list(accumulate(mean * rng.gammavariate(burstiness, 1 / burstiness) for mean in means))
    scale = math.fsum(means) / times[-1] if times[-1] > 0 else 0.0
    return [time * scale for time in times]


def _replayed(recorded: list[float | None], speed: float) -> list[float]:
    times = [time for time in recorded if time is not None]
    if len(times) < len(recorded):
        raise BenchError(f"replay_speed is {speed}: expected a timestamp in every line of the log")
    return [time / speed for time in times]
