"""A response that is made of chat chunks, and the events that tell of it, in the official order.

created, in_progress, then for each item: added, its parts and deltas, done; at last completed, incomplete or failed.
"""

from __future__ import annotations

from typing import Any

from gateway.errors import DoorError
from gateway.responses.chunks import Call, Choice, Chunk, Delta, Usage
from gateway.responses.items import COMPLETED, IN_PROGRESS, INCOMPLETE, CallItem, Fields, TextItem, event

# Why a chat answer ended that is not all it could have been.
_CUT_SHORT = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ITEM_OF = {"output_text": "message", "refusal": "message", "reasoning_text": "reasoning"}
_PREFIX = {"message": "msg", "reasoning": "rs"}


class Answer:
    """`head`: what is known of the response beforehand. Each step returns the events it makes, not yet numbered."""

    def __init__(self, request_id: str, head: Fields) -> None:
        self._id = request_id
        self._head = head
        self._items: list[TextItem | CallItem] = []
        self._text: TextItem | None = None  # the item that is being said
        self._calls: dict[int, CallItem] = {}
        self._logprobs: list[Fields] = []  # of tokens that made no character yet
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._error: Fields | None = None
        self._status = IN_PROGRESS
        self._begun = False

    def begin(self) -> list[Fields]:
        if self._begun:
            return []
        self._begun = True
        return [event(f"response.{name}", response=self.whole()) for name in ("created", "in_progress")]

    def take(self, chunk: Chunk) -> list[Fields]:
        told = self.begin()
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices or ():
            if choice.index == 0:
                told += self._take_choice(choice)
        return told

    def end(self) -> list[Fields]:
        told = self.begin()
        if not self._items:  # a client looks for a message, be it empty
            told += self._say("output_text", "")
        reason = _CUT_SHORT.get(self._finish or "")
        self._status = INCOMPLETE if reason else COMPLETED
        told += self._close(self._status)
        return [*told, event(f"response.{self._status}", response=self.whole())]

    def fail(self, error: DoorError) -> list[Fields]:
        """What was said so far stays, as incomplete."""
        told = self.begin() + self._close(INCOMPLETE)
        self._status = "failed"
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"  # of the few official ones
        self._error = {"code": code, "message": error.message}
        said = event("error", code=error.code, message=error.message, param=error.param)
        return [*told, said, event("response.failed", response=self.whole())]

    def whole(self) -> Fields:
        reason = _CUT_SHORT.get(self._finish or "") if self._status == INCOMPLETE else None
        return self._head | {
            "status": self._status,
            "error": self._error,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [item.whole() for item in self._items],
            "usage": _usage(self._usage) if self._usage else None,
        }

    def _take_choice(self, choice: Choice) -> list[Fields]:
        if choice.logprobs:
            self._logprobs += map(_logprob, choice.logprobs.content or ())
        told = self._take_delta(choice.delta) if choice.delta else []
        self._finish = choice.finish_reason or self._finish
        return told

    def _take_delta(self, delta: Delta) -> list[Fields]:
        told: list[Fields] = []
        if thought := delta.reasoning_content or delta.reasoning:
            told += self._say("reasoning_text", thought)
        if delta.content:
            told += self._say("output_text", delta.content)
        if delta.refusal:
            told += self._say("refusal", delta.refusal)
        for position, call in enumerate(delta.tool_calls or ()):
            told += self._take_call(position if call.index is None else call.index, call)
        return told

    def _say(self, kind: str, text: str) -> list[Fields]:
        told: list[Fields] = []
        type_ = _ITEM_OF[kind]
        if self._text is None or self._text.type != type_:
            told += self._close_text(COMPLETED)
            self._text = TextItem(type_, self._item_id(_PREFIX[type_]), len(self._items))
            self._items.append(self._text)
            told += self._text.open()
        logprobs: list[Fields] = []
        if kind == "output_text":
            logprobs, self._logprobs = self._logprobs, []
        return told + self._text.grow(kind, text, logprobs)

    def _take_call(self, index: int, call: Call) -> list[Fields]:
        told: list[Fields] = []
        name, arguments = (call.function.name, call.function.arguments) if call.function else (None, None)
        if index not in self._calls:
            told += self._close_text(COMPLETED)
            id_ = self._item_id("fc")
            item = CallItem(id_, len(self._items), call.id or id_.replace("fc_", "call_"), name or "")
            self._calls[index] = item
            self._items.append(item)
            told += item.open()
        return told + (self._calls[index].grow(arguments) if arguments else [])

    def _close_text(self, status: str) -> list[Fields]:
        told = self._text.close(status) if self._text else []
        self._text = None
        return told

    def _close(self, status: str) -> list[Fields]:
        """Calls may grow by turns, so they are only done when all is."""
        told = self._close_text(status)
        for call in self._calls.values():
            told += call.close(status)
        self._calls = {}
        return told

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_{self._id}_{len(self._items)}"


def _logprob(token: Fields) -> Fields:
    """With its bytes, which chat may leave out and a response may not."""
    top = [_with_bytes(other) for other in token.get("top_logprobs") or ()]
    return _with_bytes(token) | {"top_logprobs": top}


def _with_bytes(token: Fields) -> Fields:
    text = str(token.get("token", ""))
    return {"token": text, "logprob": token.get("logprob", 0.0), "bytes": token.get("bytes") or list(text.encode())}


def _usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = usage.prompt_tokens, usage.completion_tokens or 0
    cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
    reasoning = usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached or 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning or 0},
        "total_tokens": prompt + completion,
    }
