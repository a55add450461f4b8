"""Another engine goes on with an answer that broke off: what it is asked, and how its stream is joined to the first.

Knows nothing of engines, only of the official form. Works on what the client has been sent, so several may follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from backends.errors import Broken
from gateway.scope import Form

# A longer answer is not continued: it would cost memory for every stream, and be slow to read again.
MAX_BYTES = 4 * 1024 * 1024
# Of a longer stop sequence it is not looked up whether the answer breaks off inside it.
_MAX_STOP = 256
_HEAD = ("id", "created", "model", "system_fingerprint")
_LIMITS = ("max_tokens", "max_completion_tokens")
_FALSE = (b"null", b"false")
_SAID = frozenset({"role", "content"})


class Transcript:
    """The events that the client was sent, unread until they are needed."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._size = 0

    def keep(self, events: Sequence[bytes]) -> None:
        for event in events:
            self._size += len(event)
        if self._size <= MAX_BYTES:
            self._events += events
        else:
            self._events.clear()

    @property
    def events(self) -> Sequence[bytes]:
        """None of an answer that is too long to be kept."""
        return self._events

    def continuation(self, fields: Mapping[str, msgspec.Raw], form: Form) -> Continuation | None:
        """How another engine is asked to go on, by the `fields` that the first was asked with; None where none can.

        None: several choices, tool calls or reasoning begun, output bound to a grammar, echoed prompts, log
        probabilities of text completions (their offsets count from the start), an answer that breaks off inside of
        what may be a stop sequence, or that has reached its limit, or that is too long to be kept.
        """
        if self._size > MAX_BYTES or form not in ("chat", "completions"):
            return None
        try:
            said = _read(self._events)
            return Continuation(_asked(dict(fields), form, said), said)
        except _Impossible:
            return None


class Continuation:
    """`fields` to ask with, and the `edit` of the stream that comes: it reads as the first one going on."""

    def __init__(self, fields: dict[str, msgspec.Raw], said: _Said) -> None:
        self.fields = fields
        self.tokens = said.tokens  # of the answer so far, which are a part of the next engine's prompt
        self._said = said
        self._due = said.blank

    def edit(self, event: bytes) -> bytes | None:
        """An `Edit`. Raises Broken for reasoning: the engine did not go on with the answer, but thinks of one."""
        chunk = _chunk(event)
        if chunk is None or chunk.get("error"):
            return event
        chunk = {name: value for name, value in chunk.items() if name not in _HEAD} | self._said.head
        if chunk.get("usage"):
            chunk["usage"] = self._usage(chunk["usage"])
        says = [self._joins(choice) for choice in chunk.get("choices") or ()]
        return msgspec.json.encode(chunk) if any(says) or chunk.get("usage") else None

    def _joins(self, choice: dict[str, Any]) -> bool:
        """Makes the choice's text go on where the first one's ended. Whether it says anything then."""
        delta = choice.get("delta")
        if delta is None:
            choice["text"] = self._without_blank(choice.get("text") or "")
            return bool(choice["text"] or choice.get("finish_reason"))
        if delta.get("reasoning_content") or delta.get("reasoning"):
            raise Broken("it did not go on with the answer")
        delta.pop("role", None)
        if delta.get("content"):
            delta["content"] = self._without_blank(delta["content"])
        return bool(any(delta.values()) or choice.get("finish_reason"))

    def _without_blank(self, text: str) -> str:
        """Less the white space that the client has already: it was not sent, since templates strip it."""
        same = 0
        while same < min(len(text), len(self._due)) and text[same] == self._due[same]:
            same += 1
        self._due = self._due[same:] if same == len(text) else ""
        return text[same:]

    def _usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        said = self._said
        prompt = said.prompt_tokens or max(0, (usage.get("prompt_tokens") or 0) - said.tokens)
        completion = said.tokens + (usage.get("completion_tokens") or 0)
        told = usage | {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        details = usage.get("prompt_tokens_details") or {}
        if details.get("cached_tokens"):
            told["prompt_tokens_details"] = details | {"cached_tokens": min(details["cached_tokens"], prompt)}
        return told


class _Impossible(Exception):
    """This answer cannot be continued."""


class _Said(NamedTuple):
    head: dict[str, Any]  # id and so on of the first event
    text: str  # without the white space at its end
    blank: str  # that white space
    tokens: int  # of the text; an engine that does not count while it speaks may have made more
    prompt_tokens: int | None  # None: it has not told them


def _read(events: Sequence[bytes]) -> _Said:
    chunks = [chunk for chunk in map(_chunk, events) if chunk is not None]
    pieces = [piece for chunk in chunks for choice in chunk.get("choices") or () if (piece := _piece(choice))]
    usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    tokens = max([len(pieces), *(usage.get("completion_tokens") or 0 for usage in usages)])
    whole = "".join(pieces)
    text = whole.rstrip()
    # The next engine says the white space once more, and counts it.
    again = sum(1 for _ in takewhile(str.isspace, reversed(pieces)))
    return _Said(
        head={name: chunks[0][name] for name in _HEAD if name in chunks[0]} if chunks else {},
        text=text,
        blank=whole[len(text) :],
        tokens=tokens - again,
        prompt_tokens=usages[-1].get("prompt_tokens") or None if usages else None,
    )


def _chunk(event: bytes) -> dict[str, Any] | None:
    """None for [DONE] and what is no chunk."""
    try:
        chunk = msgspec.json.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return chunk if isinstance(chunk, dict) else None


def _piece(choice: dict[str, Any]) -> str:
    delta = choice.get("delta") or {}
    if choice.get("index") or choice.get("finish_reason") or any(delta[name] for name in delta.keys() - _SAID):
        raise _Impossible
    return delta.get("content") or choice.get("text") or ""


def _asked(fields: dict[str, msgspec.Raw], form: Form, said: _Said) -> dict[str, msgspec.Raw]:
    _check(fields, form, said.text)
    for name in _LIMITS:
        if limit := _value(fields, name):
            fields[name] = _raw(limit - said.tokens)
            if limit <= said.tokens:
                raise _Impossible
    if least := _value(fields, "min_tokens"):
        fields["min_tokens"] = _raw(max(0, least - said.tokens))
    if not said.text:
        return fields
    return _with_prompt(fields, said.text) if form == "completions" else _with_message(fields, said.text)


def _check(fields: Mapping[str, msgspec.Raw], form: Form, text: str) -> None:
    """Raises _Impossible for what only the engine that began can end, or only in one go."""
    given = {name for name, raw in fields.items() if bytes(raw) not in _FALSE}
    one_go = {"structured_outputs", "echo", "suffix"} | ({"logprobs"} if form == "completions" else set())
    if (
        given & one_go
        or (_value(fields, "n") or 1) > 1
        or (_value(fields, "best_of") or 1) > 1
        or (_value(fields, "response_format") or {"type": "text"})["type"] != "text"
        or any(_value(fields, name) not in (None, "auto", "none") for name in ("tool_choice", "function_call"))
        or text.startswith("<think>")  # a template may take it apart
    ):
        raise _Impossible
    stop = _value(fields, "stop") or ()
    if any(_ends_inside(text, each) for each in ((stop,) if isinstance(stop, str) else stop)):
        raise _Impossible


def _ends_inside(text: str, stop: str) -> bool:
    """Whether the rest of a stop sequence may be to come: the next engine would not know it for one."""
    return len(stop) > _MAX_STOP or any(text.endswith(stop[:length]) for length in range(1, len(stop)))


def _with_message(fields: dict[str, msgspec.Raw], text: str) -> dict[str, msgspec.Raw]:
    messages: list[Any] = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
    last = msgspec.json.decode(messages[-1])
    if last["role"] != "assistant":
        messages.append({"role": "assistant", "content": text})
    elif _value(fields, "continue_final_message") and isinstance(last["content"], str):
        messages[-1] = last | {"content": last["content"] + text}
    else:
        raise _Impossible  # whether the engine went on with it, or began a turn of its own, is not known
    return fields | {
        "messages": _raw(messages),
        "continue_final_message": _raw(True),
        "add_generation_prompt": _raw(False),
    }


def _with_prompt(fields: dict[str, msgspec.Raw], text: str) -> dict[str, msgspec.Raw]:
    prompt = _value(fields, "prompt")
    if not isinstance(prompt, str):
        raise _Impossible
    return fields | {"prompt": _raw(prompt + text)}


def _value(fields: Mapping[str, msgspec.Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
