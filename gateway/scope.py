"""What the stages of a request hand each other. Plain data: knows no stage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from backends.estimate import PromptSize
from backends.telemetry.spans import NO_SPAN, Span

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# user: a person. service: a program. auditor: sees what an admin sees, changes nothing. admin: everything.
Role = Literal["user", "service", "auditor", "admin"]
# Who goes first when the engine is busy: people who wait for an answer, programs, work without haste. Ours to say: it
# follows from key, role and route, never from a body.
QueueClass = Literal["interactive", "api", "batch"]
# What an engine is asked for.
Form = Literal["chat", "completions", "embeddings", "rerank"]
GENERATES: frozenset[Form] = frozenset({"chat", "completions"})  # token by token; the others answer in one piece
# What a credential may be limited to; every route names the one it belongs to.
Endpoint = Literal[
    "chat", "completions", "responses", "embeddings", "rerank", "files", "batches", "models", "metrics", "admin"
]

NO_PROMPT = PromptSize(0, 0)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a credential may be used for, of all that its owner may do. None: no limit."""

    models: tuple[str, ...] | None = None  # names, `*` matching any run of characters
    endpoints: frozenset[Endpoint] | None = None
    on_behalf_of: bool = False  # may name the person it asks for
    queue_class: QueueClass | None = None  # who goes before whom; None: by what the asker is


EVERYTHING = Grant()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking, as far as the door has made sure of it."""

    subject: str  # what usage is booked on: a user's or service account's id, or `<service>/<name>` of its end user
    name: str  # what people call it
    role: Role
    tenant: str  # whose prompts may share cached prefixes
    groups: tuple[str, ...] = ()
    grant: Grant = EVERYTHING
    key_id: str = ""  # of the API key it came with
    session_id: str = ""  # of the browser session it came with; never its cookie
    acting: str = ""  # the service account that asks on the subject's behalf


@dataclass(slots=True)
class RequestScope:
    """One request on its way through the door."""

    request_id: str  # ours alone, unique
    method: str
    path: str
    headers: dict[bytes, bytes]  # names in lower case; a repeated one keeps its last value
    header_count: int  # repeated ones included
    header_bytes: int  # names and values, repeated ones included
    receive: Receive
    send: Send
    received: float  # monotonic seconds at which the head arrived
    repeated: frozenset[bytes] = frozenset()  # names of headers that came more than once
    query: bytes = b""  # as it stood behind the path's question mark
    peer: str = ""  # the address of whoever connected; "" over a Unix socket
    client: str = ""  # the client's address, proxies of ours seen through; "" over a Unix socket
    route: str = "unknown"  # the route's pattern: a label of bounded variety
    principal: Principal | None = None  # None until authenticated
    path_value: str = ""  # what stood in the place of the pattern's {…}
    span: Span = NO_SPAN  # of its trace; stages are children of it

    form: Form = "chat"
    model: str = ""  # as it is served; an alias is seen through
    body: bytes = b""  # as the client sent it
    fields: dict[str, msgspec.Raw] = field(default_factory=dict)  # what the engine is to get, each as the bytes it was
    streaming: bool = False  # the client asked for a stream
    wants_usage: bool = False  # the client asked for usage in the stream
    choices: int = 1  # answers to compute, those of `best_of` that are not shown among them
    context: int = 0  # tokens that the model takes; 0: nobody knows
    prompt_size: PromptSize = NO_PROMPT
    prompt_estimate: int = 0  # tokens
    prefix_id: str = ""  # what the client calls the beginning of its prompt
    output_limit: int = 0  # tokens of all of them together, by the client's own limit; 0 = it gave none

    line: str = ""  # where it waits, or has its turn from
    backend: str = ""  # where its turn is
    overflow: str = ""  # why it went on to a higher tier
    tries: int = 0  # backends that were asked, one after another
    asked_as: str = ""  # its id at the last one
    said_before: int = 0  # tokens of its answer that came from the ones before, and are in the prompt of the last one
    admitted_ms: int = 0  # server time at which a turn was given; 0 = none
    queued_seconds: float = 0.0
    read: float = 0.0  # monotonic seconds at which the body had arrived
    dispatched: float = 0.0  # monotonic seconds at which the engine was asked
    first_token: float = 0.0  # monotonic seconds at which content first came
    upstream_ended: float = 0.0  # monotonic seconds at which the last attempt ended
    status: int = 0  # as sent; 499 = nobody was left
    outcome: str = "ok"  # ok, or the code of the error
    tokens: dict[str, int] = field(default_factory=dict)  # as booked
    answer_headers: list[tuple[bytes, bytes]] = field(default_factory=list)  # what stages have to say with the answer

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of the answer. From here on the status is fixed."""
        self.status = status
        always = [(b"x-request-id", self.request_id.encode()), (b"x-content-type-options", b"nosniff")]
        headers = [*headers, *always, *self.answer_headers]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, *, more: bool) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    def known(self) -> Principal:
        """The principal; a stage that runs before authentication must not ask."""
        if self.principal is None:
            raise RuntimeError("this request was not authenticated")
        return self.principal
