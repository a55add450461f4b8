"""What a running gateway tells of itself, and the end of a request. Told in CliErrors; knows no terminal."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import msgspec

from gateway.activity.shown import ActivityShown
from gateway.alerts import Alert
from gateway.cli.console import CliError
from gateway.queueing.administration import QueueShown
from gateway.routing.shown import BackendShown
from gateway.settings import SettingShown

_ANSWER_SECONDS = 10.0
_MOST_REQUESTS = 500
_MOST_SUBJECTS = 500


class Snapshot(NamedTuple):
    activity: ActivityShown
    queue: QueueShown
    backends: list[BackendShown]
    alerts: list[Alert]


class _Backends(msgspec.Struct):
    data: list[BackendShown]


class _Alerts(msgspec.Struct):
    data: list[Alert]


class _Settings(msgspec.Struct):
    data: list[SettingShown]


class TopClient:
    """An asynchronous context manager."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url = url.rstrip("/")
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        self._client = aiohttp.ClientSession(headers={"authorization": f"Bearer {api_key}"}, timeout=timeout)

    async def __aenter__(self) -> TopClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def look(self) -> Snapshot:
        activity, queue, backends, alerts = await asyncio.gather(
            self._get(f"activity?limit={_MOST_SUBJECTS}", ActivityShown),
            self._get(f"queue?limit={_MOST_REQUESTS}", QueueShown),
            self._get("backends", _Backends),
            self._get("alerts", _Alerts),
        )
        return Snapshot(activity, queue, backends.data, alerts.data)

    async def settings(self) -> list[SettingShown]:
        found: list[SettingShown] = (await self._get("settings", _Settings)).data
        return found

    async def cancel(self, request_id: str) -> None:
        await self._ask("DELETE", f"queue/{quote(request_id, safe='')}")

    async def _get(self, path: str, kind: Any) -> Any:
        answer = await self._ask("GET", path)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise CliError(f"{self._url} is no gateway of this release: {path.partition('?')[0]}: {error}.") from error

    async def _ask(self, method: str, path: str) -> bytes:
        try:
            async with self._client.request(method, f"{self._url}/admin/v1/{path}") as response:
                answer, status = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise CliError(f"{self._url} does not answer: {error or type(error).__name__}.") from error
        if status >= 400:
            raise CliError(f"{self._url} refuses: {_reason(answer, status)}")
        return answer


def _reason(answer: bytes, status: int) -> str:
    try:
        return str(msgspec.json.decode(answer)["error"]["message"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return f"status {status}; it is no gateway of ours."
