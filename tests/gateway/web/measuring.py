"""How quick the engine behind a door was, as tests would have it."""

from __future__ import annotations

from gateway.queueing.speed import Speed
from tests.gateway.conftest import RunningDoor


def set_speed(door: RunningDoor, **sums: float) -> None:
    """What this gateway believes of its engine from now on, whatever it is told."""
    assert door.app.door is not None
    ((permits, _),) = door.app.door.rooms.told()
    permits.speeds = {"fake": Speed(**sums)}
    permits.renewed = lambda answer: None  # type: ignore[method-assign]
