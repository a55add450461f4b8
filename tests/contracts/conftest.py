"""The door in front of an adapter, for what only both together can show."""

from tests.gateway.conftest import redis_url, start_door, valkey

# Fixtures for the tests here.
__all__ = ["redis_url", "start_door", "valkey"]
