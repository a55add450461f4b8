"""Our own engine. What it has beyond the OpenAI API: the door's steering headers, /health, and its metric names."""

from __future__ import annotations

from backends.base import Backend, Load
from backends.errors import BackendError
from backends.openai import OpenAIBackend


class NativeBackend(OpenAIBackend):
    forwarded = frozenset({"x-request-id", "x-sekisho-cache-salt"})

    async def ready(self) -> bool:
        try:
            await self._get("/health")
        except BackendError:
            return False
        return True

    async def load(self) -> Load:
        gauges = parse_gauges(await self._get("/metrics"))
        return Load(
            running=_whole(gauges.get("sekisho_engine_num_requests_running")),
            waiting=_whole(gauges.get("sekisho_engine_num_requests_waiting")),
            kv_use=gauges.get("sekisho_engine_kv_cache_usage_perc"),
        )


def create(url: str, api_key: str | None = None) -> Backend:
    return NativeBackend("native", url, api_key)


def parse_gauges(text: bytes) -> dict[str, float]:
    """Prometheus text > {name: value}, labels dropped: one engine process has one model."""
    gauges = {}
    for line in text.decode("utf-8", "replace").splitlines():
        if line.startswith("#") or " " not in line:
            continue
        name, _, value = line.rpartition(" ")
        try:
            gauges[name.partition("{")[0]] = float(value)
        except ValueError:
            continue
    return gauges


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
