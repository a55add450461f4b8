"""The door in front of an adapter, for what only both together can show."""

from collections.abc import AsyncIterator

import pytest

from tests.contracts.recorded.rig import engines_outlive_the_door
from tests.gateway.conftest import redis_url, start_door, valkey

# Fixtures for the tests here.
__all__ = ["redis_url", "start_door", "valkey"]


@pytest.fixture
async def lasting_engines() -> AsyncIterator[None]:
    """Set up before the door, and so ended after it."""
    async with engines_outlive_the_door():
        yield
