"""A scripted backend for tests and demonstrations: says what it is told to, and records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from backends.base import Account, Backend, Fields, Load, ModelCard, Options, Readiness, Refusal
from backends.errors import BackendError, Broken, Rejected


@dataclass(frozen=True, slots=True)
class Script:
    """After `delay` seconds a status, then each step in turn: bytes are sent, a number is slept, an error is raised."""

    steps: Sequence[bytes | float | BackendError] = ()
    status: int = 200
    delay: float = 0.0
    content_type: str = "text/event-stream"


@dataclass(slots=True)
class Asked:
    """One request as it arrived, and how its answer ended."""

    path: str
    body: bytes
    headers: dict[str, str]
    started: asyncio.Event = field(default_factory=asyncio.Event)
    finished: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def aborted(self) -> bool:
        return self.closed.is_set() and not self.finished


class FakeUpstream:
    def __init__(self, script: Script, asked: Asked) -> None:
        self.status = script.status
        self.headers: Mapping[str, str] = {"content-type": script.content_type}
        self._script = script
        self._asked = asked

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self._script.steps:
            if isinstance(step, bytes):
                yield step
            elif isinstance(step, BackendError):
                raise step
            else:
                await asyncio.sleep(step)
        self._asked.finished = True

    async def aclose(self) -> None:
        self._asked.closed.set()


class FakeBackend:
    """`answer` makes a script from a request body; `asked` lists every request; `accounts` is what it counted."""

    kind = "fake"
    keeps_accounts = False
    continues = False
    trusts_load = True
    probe_seconds = 5.0

    def __init__(
        self,
        answer: Callable[[bytes], Script] | None = None,
        models: Sequence[str] = ("fake",),
        name: str = "fake",
    ) -> None:
        self.name = name
        self.answer = answer or (lambda body: chat_script(("Hello", ", ", "world", ".")))
        self.asked: list[Asked] = []
        self.accounts: dict[str, Account] = {}
        self.is_ready = True
        self.refuses: Refusal | None = None
        self._models = [ModelCard(name, 4096) for name in models]

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        return self.refuses

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> FakeUpstream:
        asked = Asked(path, body, dict(headers))
        self.asked.append(asked)
        script = self.answer(body)
        try:
            await asyncio.sleep(script.delay)
        except asyncio.CancelledError:
            asked.closed.set()
            raise
        asked.started.set()
        if script.status < 300:
            return FakeUpstream(script, asked)
        raise Rejected(script.status, b"".join(step for step in script.steps if isinstance(step, bytes)))

    async def models(self) -> list[ModelCard]:
        if not self.is_ready:
            raise Broken("told not to be ready")
        return list(self._models)

    async def readiness(self) -> Readiness:
        return Readiness.READY if self.is_ready else Readiness.DOWN

    async def load(self) -> Load:
        running = sum(1 for asked in self.asked if asked.started.is_set() and not asked.closed.is_set())
        return Load(running=running, waiting=0, kv_use=0.0)

    async def account(self, request_id: str) -> Account | None:
        return self.accounts.get(request_id)

    async def aclose(self) -> None:
        """Nothing is held."""


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return FakeBackend(name=name)


def event(payload: object) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def chat_chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": [choice]}


def usage_chunk(prompt: int, completion: int) -> dict[str, object]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return chat_chunk({}) | {"choices": [], "usage": usage}


def chat_script(words: Sequence[str], gap: float = 0.0, delay: float = 0.0, prompt_tokens: int = 5) -> Script:
    """A whole, well-formed chat stream, one word a token."""
    steps: list[bytes | float | BackendError] = [event(chat_chunk({"role": "assistant", "content": ""}))]
    for word in words:
        steps += [gap, event(chat_chunk({"content": word}))] if gap else [event(chat_chunk({"content": word}))]
    steps += [event(chat_chunk({}, finish="stop")), event(usage_chunk(prompt_tokens, len(words))), DONE]
    return Script(steps, delay=delay)
