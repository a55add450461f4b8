"""Any engine or service that speaks the OpenAI API over HTTP. Knows nothing that only one engine has."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec

from backends.base import Account, Backend, Fields, Load, ModelCard, Options, Readiness, Refusal, Upstream
from backends.errors import BackendError, Broken, Rejected, translate
from backends.gauges import load_of

_CONNECT_SECONDS = 5.0
_ERROR_BODY_SECONDS = 5.0
# A managed service has no metrics for us, and an engine may be started without: ask seldom.
_NO_METRICS = frozenset({401, 403, 404, 405, 501})
_NO_METRICS_SECONDS = 60.0
_ERROR_BODY_LIMIT = 64 * 1024
_LARGE_BODY = 256 * 1024
_USUAL = Options()
_JSON_HEADERS = {"content-type": "application/json", "accept": "text/event-stream, application/json"}


class HttpUpstream:
    """An aiohttp response seen as an Upstream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        read = self._response.content.readany
        try:
            while chunk := await read():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise translate(error) from error

    async def aclose(self) -> None:
        # A response read to its end has given its connection back already; close() then does nothing.
        self._response.close()


class OpenAIBackend:
    """`forwarded` names the headers of the door that this engine may see.

    It is ready when every path of `probed` answers, each within `patience` seconds.
    """

    kind = "openai"
    forwarded: frozenset[str] = frozenset({"x-request-id", "traceparent"})
    probed: tuple[str, ...] = ("/v1/models",)
    patience = 5.0
    probe_seconds = 5.0
    keeps_accounts = False
    continues = False
    trusts_load = True

    def __init__(self, name: str, url: str, api_key: str | None = None, options: Options = _USUAL) -> None:
        self.name = name
        self.options = options
        self._base, self._socket = _split_url(url)
        self._credentials = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._session: aiohttp.ClientSession | None = None
        self._ask_load_from = 0.0  # monotonic seconds

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        return None

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        sent = _JSON_HEADERS | self._credentials | {k: v for k, v in headers.items() if k in self.forwarded}
        response = await self._post(path, body, sent)
        if response.status < 300:
            return HttpUpstream(response)
        raise await _rejection(response)

    async def models(self) -> list[ModelCard]:
        body = await self._get("/v1/models")
        try:
            return [_model_card(item) for item in msgspec.json.decode(body)["data"]]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise Broken("the engine's model list cannot be read") from error

    async def readiness(self) -> Readiness:
        try:
            for path in self.probed:
                await self._get(path)
        except Rejected as error:
            if error.status == 503:
                return Readiness.WARMING
            return Readiness.MISCONFIGURED if error.status in (401, 403) else Readiness.DOWN
        except BackendError:
            return Readiness.DOWN
        return Readiness.READY

    async def load(self) -> Load:
        if time.monotonic() < self._ask_load_from:
            return Load()
        try:
            return load_of(await self._get("/metrics"))
        except Rejected as error:
            if error.status not in _NO_METRICS:
                raise
            self._ask_load_from = time.monotonic() + _NO_METRICS_SECONDS
            return Load()

    async def account(self, request_id: str) -> Account | None:
        return None

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        """POST, and once more where a kept-alive connection turns out to have died before any byte of the answer."""
        for last_try in (False, True):
            connection = SimpleNamespace(reused=False)
            try:
                return await self._client().post(
                    self._base + path,
                    data=_payload(body),
                    headers=headers,
                    trace_request_ctx=connection,
                    allow_redirects=False,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                if last_try or not connection.reused:
                    raise translate(error) from error
            except (aiohttp.ClientError, OSError) as error:
                raise translate(error) from error
        raise AssertionError("unreachable")

    async def _get(self, path: str) -> bytes:
        timeout = aiohttp.ClientTimeout(total=self.patience)
        try:
            async with self._client().get(
                self._base + path, headers=self._credentials, timeout=timeout, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise await _rejection(response)
                return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise translate(error) from error

    def _client(self) -> aiohttp.ClientSession:
        # Made at first use: a session belongs to the event loop it was made in.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_connector(self._socket),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                trace_configs=[_reuse_tracer()],
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                skip_auto_headers=("user-agent",),
            )
        return self._session


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return OpenAIBackend(name, url, api_key, options)


def _split_url(url: str) -> tuple[str, str | None]:
    """(base URL, socket path): `unix:/run/engine.sock` has both, a plain URL has no socket."""
    for prefix in ("unix://", "unix:"):
        if url.startswith(prefix):
            return "http://engine", url.removeprefix(prefix)
    base = url.rstrip("/")
    return base.removesuffix("/v1"), None


def _connector(socket: str | None) -> aiohttp.BaseConnector:
    # No cap: how many requests an engine gets is the queue's business, and a full pool would be a second, hidden queue.
    if socket is not None:
        return aiohttp.UnixConnector(socket, limit=0)
    return aiohttp.TCPConnector(limit=0)


def _payload(body: bytes) -> bytes | io.BytesIO:
    # A large body in one write would hold up every other stream; aiohttp sends a file piece by piece.
    return body if len(body) < _LARGE_BODY else io.BytesIO(body)


def _reuse_tracer() -> aiohttp.TraceConfig:
    """Tells a request, through its trace context, that it went out on a connection used before."""

    async def on_reuse(_session: Any, context: Any, _params: Any) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx.reused = True

    tracer = aiohttp.TraceConfig()
    tracer.on_connection_reuseconn.append(on_reuse)
    return tracer


async def _rejection(response: aiohttp.ClientResponse) -> Rejected:
    body = b""
    try:
        async with asyncio.timeout(_ERROR_BODY_SECONDS):
            body = await response.content.read(_ERROR_BODY_LIMIT)
    except (aiohttp.ClientError, OSError):
        pass  # the status says enough
    finally:
        response.close()
    return Rejected(response.status, body, response.headers.get("retry-after"))


def _model_card(item: dict[str, Any]) -> ModelCard:
    context = item.get("max_model_len") or (item.get("meta") or {}).get("n_ctx")
    return ModelCard(str(item["id"]), context, str(item.get("owned_by") or "unknown"), _text(item.get("task")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
