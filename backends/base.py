"""The seam between the door and an engine: what every backend can do. Knows no transport and no engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

# A request's top-level fields, each value as the bytes it was.
Fields = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model as its engine names it. `context_length` is None where the engine does not say."""

    id: str
    context_length: int | None = None
    owned_by: str = "sekisho"
    task: str | None = None  # "generate" or "embed", where the engine says so


class Readiness(Enum):
    READY = "ready"
    WARMING = "warming"  # the process is there; its model is still loading
    MISCONFIGURED = "misconfigured"  # it refuses our credential
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator knows of an engine and no adapter can ask. None: as is usual for this kind of engine."""

    tools: bool | None = None  # it was started with a parser for tool calls
    images: bool | None = None  # its model reads images
    priority: bool = False  # it was started with priority scheduling
    num_ctx: int | None = None  # Ollama: context to load a model with, always the same
    keep_alive: str | None = None  # Ollama: how long a model stays loaded


class Refusal(NamedTuple):
    """What an engine cannot do: told to the user before it is sent."""

    message: str
    param: str | None = None
    code: str = "unsupported_parameter"


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine says of itself; None where it says nothing.

    A free KV block is one that no request holds: what it remembers of an earlier prompt gives way.
    """

    running: int | None = None
    waiting: int | None = None
    kv_use: float | None = None
    kv_blocks_total: int | None = None
    kv_blocks_free: int | None = None
    block_size: int | None = None  # tokens
    slots: int | None = None  # requests that it runs at once
    preempted: int | None = None  # of those that wait, the ones that ran before
    preemptions: int | None = None  # since it started

    @property
    def kv_tokens(self) -> int | None:
        """Tokens that the KV cache holds in all."""
        if self.kv_blocks_total is None or self.block_size is None:
            return None
        return self.kv_blocks_total * self.block_size


@dataclass(frozen=True, slots=True)
class Account:
    """What the engine counted for one request. While it has not `ended` the figures are those so far."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    ended: bool = True


class Upstream(Protocol):
    """One answer in progress, status 2xx. `chunks` may be iterated once."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes as they come. Raises Broken or TimedOut where the engine stops short."""
        ...

    async def aclose(self) -> None:
        """Give the connection back, or cut it if the answer is not complete, which aborts it. Never raises."""
        ...


class Backend(Protocol):
    """An engine. Every method raises nothing but BackendError."""

    name: str  # as it is configured, unique
    kind: str  # as it is registered
    keeps_accounts: bool  # `account` knows every request that came here lately
    continues: bool  # goes on with a last assistant message: continue_final_message
    trusts_load: bool  # `load` is as true as the door's own count
    probe_seconds: float  # between two looks at its readiness, at least

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        """What of this request it cannot do, as far as that is known before it is sent."""
        ...

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        """POST the body. Returns when the status is known; an error status is raised as Rejected.

        Path, body and answer are in the OpenAI form, whatever the engine speaks. Chat and completions ask for a stream
        with usage, and are answered by server-sent events; anything else by JSON.
        """
        ...

    async def models(self) -> list[ModelCard]:
        """What it serves now."""
        ...

    async def readiness(self) -> Readiness:
        """Whether it would take a request now. Cheap, runs no model, raises nothing."""
        ...

    async def load(self) -> Load:
        """How busy it says it is."""
        ...

    async def account(self, request_id: str) -> Account | None:
        """Its own count for the request that carried this id; None where it keeps none, or no longer."""
        ...

    async def aclose(self) -> None:
        """Let go of every connection."""
        ...
