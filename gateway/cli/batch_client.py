"""The few calls of /v1/files and /v1/batches that `sekisho run-batch` needs. Told in CliErrors."""

from __future__ import annotations

import asyncio
from typing import IO, Any, Literal

import aiohttp
import msgspec

from gateway.cli.console import CliError, note

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_RETRY_SECONDS = 2.0
_ANSWER_SECONDS = 60.0
_CHUNK = 256 * 1024


class Fault(msgspec.Struct, frozen=True):
    message: str
    line: int | None = None


class Faults(msgspec.Struct, frozen=True):
    data: list[Fault]


class Counts(msgspec.Struct, frozen=True):
    total: int
    completed: int
    failed: int


class Shown(msgspec.Struct, frozen=True):
    """A batch, as far as it is looked at here."""

    id: str
    status: str
    request_counts: Counts
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: Faults | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDED


class BatchClient:
    """An asynchronous context manager."""

    def __init__(self, url: str, api_key: str) -> None:
        self._url = url
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=_ANSWER_SECONDS)
        self._client = aiohttp.ClientSession(url, headers={"authorization": f"Bearer {api_key}"}, timeout=timeout)

    async def __aenter__(self) -> BatchClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def begin(self, name: str, data: bytes, endpoint: str, window: str) -> Shown:
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", data, filename=name)
        file = await self._call("POST", "/v1/files", data=form)
        body = {"input_file_id": file["id"], "endpoint": endpoint, "completion_window": window}
        return _shown(await self._call("POST", "/v1/batches", json=body))

    async def find(self, batch_id: str, *, patiently: bool = False) -> Shown:
        """`patiently`: a gateway that is away for a while is waited for."""
        while True:
            try:
                return _shown(await self._call("GET", f"/v1/batches/{batch_id}"))
            except Away as error:
                if not patiently:
                    raise
                note(f"{error} Looking again.")
                await asyncio.sleep(_RETRY_SECONDS)

    async def download(self, file_id: str, into: IO[bytes]) -> None:
        try:
            async with self._client.get(f"/v1/files/{file_id}/content") as response:
                if response.status != 200:
                    raise _refusal("GET", f"/v1/files/{file_id}/content", await response.read())
                async for part in response.content.iter_chunked(_CHUNK):
                    into.write(part)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Away(self._url, error) from error

    async def _call(self, method: Literal["GET", "POST"], path: str, **body: Any) -> Any:
        try:
            async with self._client.request(method, path, **body) as response:
                answer, status = await response.read(), response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Away(self._url, error) from error
        if status >= 500:
            raise Away(self._url, status)
        if status >= 400:
            raise _refusal(method, path, answer)
        return msgspec.json.decode(answer)


class Away(CliError):
    def __init__(self, url: str, why: object) -> None:
        super().__init__(f"{url} does not answer: {why or type(why).__name__}.")


def _shown(answer: Any) -> Shown:
    return msgspec.convert(answer, Shown)


def _refusal(method: str, path: str, answer: bytes) -> CliError:
    try:
        message = msgspec.json.decode(answer)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError):
        message = "it is no gateway of ours"
    return CliError(f"the gateway refuses {method} {path}: {message}")
