"""What ranks do that do not do their work. Light, as each rank imports it."""

from __future__ import annotations

import os
import signal

from native_engine.loading.errors import ModelError
from native_engine.parallel.job import Place


def refuse(place: Place, why: str) -> None:
    if place.rank == 1:
        raise ModelError(f"rank {place.rank} of {place.size}: {why}")
    signal.pause()


def die(place: Place) -> None:
    if place.rank == 1:
        os._exit(7)
    signal.pause()
