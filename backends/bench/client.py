"""One streamed request, timed. Parses as little as it can: it often shares its cores with the server it measures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from backends.bench.config import BenchConfig, BenchError
from backends.bench.datasets import Message
from backends.wire.errors import normalise
from backends.wire.sse import EventParser, OversizedEvent


@dataclass(slots=True)
class Sample:
    """What one request did. Times are `perf_counter` seconds; `error` is empty where all went well."""

    sent: float = 0.0
    text_times: list[float] = field(default_factory=list)  # arrival of each piece of text
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    counted_by_server: bool = False
    error: str = ""
    queued: float = 0.0  # seconds that it waited here for a place before it was sent
    text: list[str] | None = None  # the answer's pieces, where they are kept
    retry_after: str = ""  # of a refusal, as the server said it

    @property
    def answer(self) -> str:
        return "".join(self.text or ())

    @property
    def ttft(self) -> float:
        return self.text_times[0] - self.sent

    @property
    def e2e(self) -> float:
        return self.text_times[-1] - self.sent

    @property
    def tpot(self) -> float:
        """0 where there is no second token."""
        return (self.e2e - self.ttft) / (self.output_tokens - 1) if self.output_tokens > 1 else 0.0


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Cached | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Client:
    """Connections to one server. Kept alive as a real client's would be."""

    def __init__(self, config: BenchConfig) -> None:
        self._config = config
        self._base, connector = address(config.url)
        headers = {"content-type": "application/json"}
        if config.api_key:
            headers["authorization"] = f"Bearer {config.api_key}"
        self._session = aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=config.timeout_s)
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def first_model(self) -> str:
        try:
            async with self._session.get(f"{self._base}/models") as response:
                body = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise BenchError(f"no server answers at {self._config.url}: {error}") from error
        if response.status != 200:
            raise BenchError(
                f"{self._config.url} answered {response.status}: {normalise(response.status, body).message}"
            )
        try:
            return str(msgspec.json.decode(body)["data"][0]["id"])
        except (msgspec.DecodeError, LookupError, TypeError) as error:
            raise BenchError(f"{self._config.url} lists no model: name one") from error

    async def send(
        self, model: str, messages: Sequence[Message], output_tokens: int, *, keep_text: bool = False
    ) -> Sample:
        path, body = _request(self._config, model, messages, output_tokens)
        sample = Sample(sent=time.perf_counter(), text=[] if keep_text else None)
        try:
            await self._send_once_more_if_stale(f"{self._base}{path}", body, sample)
        except (aiohttp.ClientError, OSError, TimeoutError, OversizedEvent, msgspec.DecodeError) as error:
            sample.error = f"{type(error).__name__}: {error}".rstrip(": ")
        if not sample.error and not sample.text_times:
            sample.error = "the stream ended without an answer"
        return sample

    async def _send_once_more_if_stale(self, url: str, body: bytes, sample: Sample) -> None:
        """Some servers close a kept-alive connection after a few requests, as we pick it up: nothing was read yet."""
        try:
            await self._stream(url, body, sample)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if sample.text_times or isinstance(error, aiohttp.ClientConnectorError):
                raise
            await self._stream(url, body, sample)

    async def _stream(self, url: str, body: bytes, sample: Sample) -> None:
        async with self._session.post(url, data=body) as response:
            if response.status != 200:
                error = normalise(response.status, await response.read())
                sample.error = f"{response.status}: {error.message}"
                sample.retry_after = response.headers.get("retry-after", "")
                return
            parser = EventParser()
            ended = False
            while piece := await response.content.readany():
                now = time.perf_counter()
                for event in parser.feed(piece):
                    ended = event.is_done or _note(sample, _decode(event.data), now) or ended
            if not ended and not sample.error:
                sample.error = "the stream was cut: no finish reason and no [DONE]"


def _note(sample: Sample, chunk: _Chunk, now: float) -> bool:
    """Record one chunk; true where it ends the answer."""
    ended = False
    for choice in chunk.choices:
        delta = choice.delta
        if choice.text or (delta and (delta.content or delta.reasoning_content or delta.reasoning)):
            sample.text_times.append(now)
            if not sample.counted_by_server:
                sample.output_tokens += 1
            if sample.text is not None:
                sample.text.append(choice.text or (delta and delta.content) or "")
        if choice.finish_reason is not None:
            ended = True
            sample.text_times = sample.text_times or [now]  # all its tokens were special ones
    if chunk.usage and chunk.usage.completion_tokens:
        sample.counted_by_server = True
        sample.prompt_tokens = chunk.usage.prompt_tokens
        sample.output_tokens = chunk.usage.completion_tokens
        details = chunk.usage.prompt_tokens_details
        sample.cached_tokens = (details.cached_tokens or 0) if details else 0
    if chunk.error:
        error = normalise(200, msgspec.json.encode({"error": chunk.error}))
        sample.error = f"{error.status} in the stream: {error.message}"
    return ended


def address(url: str) -> tuple[str, aiohttp.BaseConnector]:
    """The base of the API's paths, and how to reach it."""
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        return "http://localhost/v1", aiohttp.UnixConnector(path=path, limit=0)
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return (base if base.endswith("/v1") else f"{base}/v1"), aiohttp.TCPConnector(limit=0)


def _request(config: BenchConfig, model: str, messages: Sequence[Message], output_tokens: int) -> tuple[str, bytes]:
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if config.ignore_eos:
        body["ignore_eos"] = True
    if config.endpoint == "chat":
        body["messages"] = messages
        return "/chat/completions", msgspec.json.encode(body)
    body["prompt"] = "\n\n".join(str(message["content"]) for message in messages)
    return "/completions", msgspec.json.encode(body)
