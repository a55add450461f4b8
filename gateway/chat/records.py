"""What a conversation is: messages that form a tree, and what is said of all of them. Plain data: knows no Redis."""

from __future__ import annotations

import re
import secrets
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Role = Literal["user", "assistant"]
# running: the answer is being written. stopped: somebody ended it. failed: something did; `error` says what.
State = Literal["running", "done", "stopped", "failed"]

_CONVERSATION_ID = re.compile(r"conv_[0-9a-f]{36}", re.ASCII)
_MESSAGE_ID = re.compile(r"msg_[0-9a-f]{36}", re.ASCII)
LONGEST_TITLE = 120


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an answer is drawn, as the official API names it. None: as the engine does without it."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=1_000_000)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    stop: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=4)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = None

    def over(self, others: Parameters) -> Parameters:
        """These, and the others where these say nothing."""
        return msgspec.structs.replace(others, **self.given())

    def given(self) -> dict[str, Any]:
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


NO_PARAMETERS = Parameters()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """As the engine counted it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An OpenAI error object, and the seconds after which it is worth trying again."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    retry_after: int | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `parent`: the one before it; several with the same parent are branches."""

    id: str
    parent: str | None
    role: Role
    content: str
    reasoning: str = ""
    model: str = ""  # of an answer
    created: int  # Unix seconds
    state: State = "done"
    finish_reason: str | None = None
    usage: Usage | None = None
    seconds: float | None = None  # that the answer took
    error: Fault | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A line in the list of conversations. Times are Unix seconds."""

    id: str
    title: str
    model: str
    created: int
    updated: int


class Conversation(Summary, frozen=True, kw_only=True):
    """`head`: the leaf of the branch that is shown. `messages`: all branches, oldest first."""

    system: str
    parameters: Parameters
    head: str | None
    messages: tuple[Message, ...] = ()

    def summary(self) -> Summary:
        return Summary(**{name: getattr(self, name) for name in Summary.__struct_fields__})


def new_conversation_id() -> str:
    return f"conv_{_unique()}"


def new_message_id() -> str:
    return f"msg_{_unique()}"


def is_conversation_id(text: str) -> bool:
    return _CONVERSATION_ID.fullmatch(text) is not None


def is_message_id(text: str) -> bool:
    return _MESSAGE_ID.fullmatch(text) is not None


def _unique() -> str:
    """Sorts by the time it was made at, and cannot be guessed."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(12)}"
