"""What a launcher and its ranks say to each other, through files of the launcher's folder. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOB, REFUSAL = "job", "refusal"  # pickled: the Job, and the exception of a rank that refuses


class RanksLost(RuntimeError):
    """Ranks died more often than they are started again."""


@dataclass(frozen=True)
class Place:
    """Which rank this process is, and the file in which the ranks of this start meet."""

    rank: int
    size: int
    meeting_point: Path


@dataclass(frozen=True)
class Job:
    """What each rank does: `work(place, *arguments)`, a function of a module, and arguments that can be pickled.

    `refusals`: what it raises where starting again would not help. `patience`: the seconds that ranks have after a
    signal, before they are killed.
    """

    work: Callable[..., None]
    arguments: tuple[Any, ...]
    refusals: tuple[type[Exception], ...]
    patience: float
