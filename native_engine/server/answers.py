"""Carrying a generation to its client, as a stream or whole, and to the engine the news that the client left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from backends.wire import sse
from backends.wire.responses import Choice as FinishedChoice
from backends.wire.responses import Head
from backends.wire.schema import ChatRequest, CompletionRequest
from native_engine.request import Sequence as EngineSequence
from native_engine.server.dialects import ChunkWriter, Dialect
from native_engine.server.generation import Generation, Piece
from native_engine.server.http import HttpError, Receive, Send, send_whole, unavailable
from native_engine.server.logprobs import Spelling, prompt_logprobs
from native_engine.server.tools import whole_calls
from native_engine.text.choice import Choice
from native_engine.text.logprobs import TokenLogprobs
from native_engine.text.tool_calls import CallPiece

_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_FAILED = ("error", "abort")


class Cancellable(Protocol):
    def cancel(self) -> None:
        """Nothing more is computed for it. Harmless at the end."""
        ...


@contextmanager
def cancelled_when_gone(receive: Receive, generation: Cancellable) -> Iterator[None]:
    """Watches for the client's leaving while the answer is made; an answer that fails half-way is not computed on."""
    watch = asyncio.ensure_future(receive())  # the body was read, so the next message can only be the disconnect
    watch.add_done_callback(lambda done: None if done.cancelled() else generation.cancel())
    try:
        yield
    finally:
        watch.cancel()
        generation.cancel()


async def send_collected(
    send: Send,
    generation: Generation,
    dialect: Dialect,
    head: Head,
    spelling: Spelling,
    request: ChatRequest | CompletionRequest,
) -> None:
    texts: dict[int, list[str]] = {choice.index: [] for choice in generation.choices}
    thoughts: dict[int, list[str]] = {choice.index: [] for choice in generation.choices}
    logprobs: dict[int, list[TokenLogprobs]] = {choice.index: [] for choice in generation.choices}
    calls: dict[int, list[CallPiece]] = {choice.index: [] for choice in generation.choices}
    while True:
        for piece in await generation.next():
            texts[piece.choice.index].append(piece.text)
            thoughts[piece.choice.index].append(piece.thought)
            logprobs[piece.choice.index] += piece.logprobs
            calls[piece.choice.index] += piece.calls
        if generation.done:
            break
    if generation.cancelled:
        return
    failed = next((choice.finish_reason for choice in generation.choices if choice.finish_reason in _FAILED), None)
    if failed is not None:
        raise failure(failed)
    finished = [
        FinishedChoice(
            "".join(texts[choice.index]),
            choice.finish_reason or "stop",
            None if request.num_logprobs is None else dialect.logprobs(logprobs[choice.index], spelling),
            whole_calls(calls[choice.index]),
            "".join(thoughts[choice.index]),
            _of_prompt(generation.first_of(choice), request.prompt_logprobs, spelling),
        )
        for choice in _best(generation.choices, generation.answers_each, request.n or 1)
    ]
    await send_whole(send, 200, dialect.whole(head, finished, generation.usage))


def _best(choices: Sequence[Choice], computed: int, shown: int) -> list[Choice]:
    """Of the answers to each prompt those whose tokens are likeliest on average, the best first; all in their order
    where all are shown."""
    if computed == shown:
        return list(choices)
    groups = (choices[start : start + computed] for start in range(0, len(choices), computed))
    return [choice for group in groups for choice in sorted(group, key=_mean_logprob, reverse=True)[:shown]]


def _mean_logprob(choice: Choice) -> float:
    return choice.total_logprob / max(choice.num_tokens, 1)


def _of_prompt(sequence: EngineSequence, count: int | None, spelling: Spelling) -> list[dict[str, Any] | None] | None:
    if count is None:
        return None
    return prompt_logprobs(sequence.token_ids[: sequence.num_prompt_tokens], sequence.prompt_logprobs, count, spelling)


async def send_stream(
    send: Send, generation: Generation, dialect: Dialect, head: Head, spelling: Spelling, *, include_usage: bool
) -> None:
    """The status waits for the first output, so that a request that fails before it has an error status."""
    writers = {
        choice.index: ChunkWriter(dialect, head, choice.index, spelling, null_usage=include_usage)
        for choice in generation.choices
    }
    begun = False
    while True:
        pieces = await generation.next()
        if generation.cancelled:
            return
        failed = next((piece.finish_reason for piece in pieces if piece.finish_reason in _FAILED), None)
        if failed is not None and not begun:
            raise failure(failed)
        data = _events(pieces, writers)
        if not begun:
            begun = True
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        if failed is not None:  # no [DONE] follows: nobody can take what came for the whole
            await send({"type": "http.response.body", "body": data + sse.event(failure(failed).body)})
            return
        if generation.done:
            end = sse.event(dialect.usage(head, generation.usage)) if include_usage else b""
            await send({"type": "http.response.body", "body": data + end + sse.DONE})
            return
        if data:
            await send({"type": "http.response.body", "body": data, "more_body": True})


def _events(pieces: list[Piece], writers: dict[int, ChunkWriter]) -> bytes:
    events = []
    for choice, text, logprobs, calls, thought, reason in pieces:
        writer = writers[choice.index]
        if thought:  # and where text comes in the same step, all its probabilities too
            events.append(writer.thought(thought, logprobs))
        events.append(writer.text(text, () if thought else logprobs))
        events.append(writer.calls(calls))
        if reason is not None and reason not in _FAILED:
            events.append(writer.closing(reason))
    return b"".join(events)


def failure(reason: str) -> HttpError:
    if reason == "abort":
        return unavailable("The engine is shutting down; the answer was cut off.")
    return HttpError(500, "The engine failed on this request.", "server_error", "engine_error")
