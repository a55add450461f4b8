"""Ollama's lines of JSON as official server-sent events, however the bytes were cut. Bytes in, bytes out.

Most lines carry one token, so a line costs one small decoding and the joining of bytes made ready before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from backends.errors import Broken
from backends.ollama.errors import message_of, status_of
from backends.wire import sse
from backends.wire.responses import Head, Usage, chat_usage_chunk, completion_usage_chunk

MAX_LINE_BYTES = 16 * 1024 * 1024

_encode = msgspec.json.Encoder().encode


class _Function(msgspec.Struct):
    name: str = ""
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _Call(msgspec.Struct):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct):
    message: _Message | None = None
    response: str | None = None
    done: bool = False
    done_reason: str = ""
    prompt_eval_count: int = 0
    eval_count: int = 0
    error: Any = None


_decode = msgspec.json.Decoder(_Line).decode

# Told prompt and output tokens at the end, says in what way the request was too long; None if it was not.
Judge = Callable[[int, int], str | None]


class _Form(NamedTuple):
    id: str
    object: str
    usage_chunk: Callable[[Head, Usage], bytes]
    opening: bytes  # what stands before a piece in a choice
    nothing: bytes  # the piece of the choice that only says how the answer ended


CHAT = _Form("chatcmpl-", "chat.completion.chunk", chat_usage_chunk, b'"delta":', b"{}")
COMPLETION = _Form("cmpl-", "text_completion", completion_usage_chunk, b'"text":', b'""')


class Answer:
    """One answer. `id` is the request's; `judge` is asked once, at the end."""

    def __init__(self, form: _Form, id: str, model: str, judge: Judge) -> None:
        self._form = form
        self._head = Head(form.id + id, int(time.time()), model)
        named = b'{"id":%b,"object":%b,"created":%d,"model":%b,"choices":[{"index":0,' % (
            _encode(self._head.id),
            _encode(form.object),
            self._head.created,
            _encode(model),
        )
        self._before = b"data: " + named + form.opening
        self._judge = judge
        self._tail: list[bytes] = []  # of the unfinished line, in pieces so that a long one stays linear
        self._tail_size = 0
        self._began = False
        self._calls = 0
        self.over = False  # it ended, or failed, and has said so

    def feed(self, data: bytes) -> bytes:
        """The events that end with these bytes. Raises Broken for what is no line of Ollama's."""
        lines, newline, rest = data.rpartition(b"\n")
        made = b""
        if newline:
            if self._tail:
                lines = b"".join((*self._tail, lines))
                self._tail, self._tail_size = [], 0
            made = b"".join([self._events(line) for line in lines.split(b"\n")])
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            if self._tail_size > MAX_LINE_BYTES:
                raise Broken(f"a line of more than {MAX_LINE_BYTES} bytes")
        return made

    def end(self) -> bytes:
        """The engine will send no more: what a last line without a newline says. Raises Broken if that is no end."""
        made = self.feed(b"\n") if self._tail else b""
        if not self.over:
            raise Broken("the engine stopped before its last line")
        return made

    def _events(self, data: bytes) -> bytes:
        if self.over or not data.strip():
            return b""
        try:
            line = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Broken("the engine sent a line that cannot be read") from error
        if line.error is not None:
            message = message_of(data) or "The engine failed in the middle of the answer."
            return self._failed(message, status_of(message, 500))
        said = self._said(line)
        return said + self._ended(line) if line.done else said

    def _said(self, line: _Line) -> bytes:
        if self._form is COMPLETION:
            return self._event(_encode(line.response)) if line.response else b""
        message = line.message
        if message is None:
            return b""
        delta: dict[str, Any] = {}
        if message.content:
            delta["content"] = message.content
        if message.thinking:
            delta["reasoning_content"] = message.thinking
        if message.tool_calls:
            delta["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if not delta:
            return b""
        first = {} if self._began else {"role": "assistant"}
        self._began = True
        return self._event(_encode(first | delta if first else delta))

    def _call(self, call: _Call) -> dict[str, Any]:
        """Calls come whole; the id is ours where the engine gives none."""
        self._calls += 1
        return {
            "index": self._calls - 1,
            "id": call.id or f"call_{uuid4().hex[:24]}",
            "type": "function",
            "function": {"name": call.function.name, "arguments": bytes(call.function.arguments).decode()},
        }

    def _ended(self, line: _Line) -> bytes:
        if line.done_reason in ("load", "unload"):
            return self._failed("The engine loaded or unloaded the model and did not answer. Try again.", 500)
        counted = self._counted(line)
        if fault := self._judge(line.prompt_eval_count, line.eval_count):
            return counted + self._failed(fault, 400)
        self.over = True
        reason = "length" if line.done_reason == "length" else "tool_calls" if self._calls else "stop"
        return self._event(self._form.nothing, _encode(reason)) + counted + sse.DONE

    def _counted(self, line: _Line) -> bytes:
        if not line.prompt_eval_count:
            return b""  # some older versions do not count a prompt that they remember: no count is better than 0
        usage = Usage(line.prompt_eval_count, line.eval_count)
        return sse.event(self._form.usage_chunk(self._head, usage))

    def _event(self, piece: bytes, finish_reason: bytes = b"null") -> bytes:
        return self._before + piece + b',"logprobs":null,"finish_reason":' + finish_reason + b"}]}\n\n"

    def _failed(self, message: str, status: int) -> bytes:
        """An error that comes under status 200 carries its own as a number."""
        self.over = True
        type_ = "invalid_request_error" if status < 500 else "server_error"
        return sse.event(_encode({"error": {"message": message, "type": type_, "param": None, "code": status}}))
