"""The door as the gateway's own tests start it."""

from __future__ import annotations

from tests.gateway.conftest import redis_url, start_door, valkey

__all__ = ["redis_url", "start_door", "valkey"]
