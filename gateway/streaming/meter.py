"""Watches a stream go by: first content, usage, error, the end. Knows nothing of who reads it.

A chunk is decoded into four small structs and no more; msgspec skips the rest without building it, which costs
less than searching the bytes for the same marks would.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from backends.errors import Broken, Rejected
from backends.wire.errors import normalise
from backends.wire.usage import usage_of


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None

    def says_something(self) -> bool:
        return bool(self.content or self.tool_calls or self.reasoning_content or self.reasoning or self.refusal)


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DONE = b"[DONE]"


class Meter:
    def __init__(self) -> None:
        self.began = False  # content, or a finish, has been seen
        self.began_at = 0.0  # monotonic seconds
        self.progress = 0  # how often content or a finish has been seen
        self.on_progress: Callable[[], None] | None = None  # called the next time, once
        self.done = False  # [DONE] has been seen
        self.prompt_tokens: int | None = None  # None until the engine says
        self.cached_tokens = 0
        self._reported = 0
        self._counted = 0
        self._open: set[int] = set()
        self.finish_reasons: dict[int, str] = {}  # by choice

    @property
    def complete(self) -> bool:
        """Whether the stream said that it is over, rather than merely stopped."""
        return self.done or (bool(self.finish_reasons) and not self._open)

    @property
    def completion_tokens(self) -> int:
        # An engine may count one choice of several only; an event is one token or more, so events never count too many.
        return max(self._reported, self._counted)

    def observe(self, data: bytes) -> bool:
        """Take note of one event. False if it carries usage alone. Raises Rejected for an error, Broken for no JSON."""
        if data == _DONE:
            self.done = True
            return True
        return self._take(data)

    def observe_whole(self, body: bytes) -> None:
        """Take note of an answer in one piece. Raises Rejected for an error, Broken for what is no JSON object."""
        self._take(body)
        counted = usage_of(body)
        self.prompt_tokens = counted.prompt_tokens if counted else None
        self._begin()
        self.done = True

    def _take(self, data: bytes) -> bool:
        chunk = _read(data)
        if chunk.error:
            raise Rejected(normalise(200, data).status, data)  # the status inside, not the stream's
        if chunk.usage is not None:
            self._take_usage(chunk.usage)
        for choice in chunk.choices or ():
            self._take_choice(choice)
        return bool(chunk.choices) or chunk.usage is None

    def _take_usage(self, usage: _Usage) -> None:
        self.prompt_tokens = max(usage.prompt_tokens, self.prompt_tokens or 0)
        self._reported = max(usage.completion_tokens or 0, self._reported)
        if usage.prompt_tokens_details is not None:
            self.cached_tokens = usage.prompt_tokens_details.cached_tokens or 0

    def _take_choice(self, choice: _Choice) -> None:
        if choice.text or (choice.delta is not None and choice.delta.says_something()):
            self._begin()
            self._counted += 1
        if choice.finish_reason is None:
            self._open.add(choice.index)
            return
        self._begin()
        self._open.discard(choice.index)
        self.finish_reasons[choice.index] = choice.finish_reason

    def _begin(self) -> None:
        self.progress += 1
        if not self.began:
            self.began, self.began_at = True, time.monotonic()
        if self.on_progress is not None:
            told, self.on_progress = self.on_progress, None
            told()


def _read(data: bytes) -> _Chunk:
    """An object of a form that is not known here holds nothing to count, but may say something to the client."""
    try:
        if not data.isascii():
            data.decode()  # msgspec does not look into what it skips
        return _decode(data)
    except msgspec.ValidationError:
        with suppress(msgspec.DecodeError):
            _split(data)
            return _Chunk()
        raise Broken("it is no JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Broken(f"it cannot be read: {error}") from None
