"""The request body of /v1/responses, as far as an engine can do what it asks for.

`input` and `tools` stay bytes here: each item is decoded by its type, so that an error names what was meant.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from backends.wire.schema import Metadata, NonEmpty, Positive

Status = Literal["in_progress", "completed", "incomplete"]


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Null and absent mean the same: the server's default."""


class StreamOptions(Strict, frozen=True, kw_only=True):
    include_obfuscation: bool | None = None


class TextFormat(Strict, frozen=True, kw_only=True):
    type: Literal["text", "json_object", "json_schema"]
    name: NonEmpty | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class TextConfig(Strict, frozen=True, kw_only=True):
    format: TextFormat | None = None
    verbosity: str | None = None


class Reasoning(Strict, frozen=True, kw_only=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class ResponsesRequest(Strict, frozen=True, kw_only=True):
    model: NonEmpty
    input: NonEmpty | Annotated[list[Raw], Meta(min_length=1)] | UnsetType = UNSET
    instructions: str | None = None
    max_output_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    include: list[str] | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    tools: list[Raw] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Positive | None = None  # of built-in tools, of which there are none
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    store: bool | None = None  # nothing ever is
    # Known so that they can be refused with a word on what to do instead.
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None


class Kind(Struct, frozen=True):
    """Enough of an item to tell how to read it."""

    type: str | None = None


class Part(Strict, frozen=True, kw_only=True):
    """A piece of a message or of a tool's output. What our own answers hold is taken back as it was given."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


Parts = Annotated[list[Part], Meta(min_length=1)]


class MessageItem(Strict, frozen=True, kw_only=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Parts
    type: Literal["message"] | None = None
    id: str | None = None
    status: Status | None = None
    phase: str | None = None


class FunctionCallItem(Strict, frozen=True, kw_only=True):
    type: Literal["function_call"]
    call_id: NonEmpty
    name: NonEmpty
    arguments: str
    id: str | None = None
    status: Status | None = None


class FunctionOutputItem(Strict, frozen=True, kw_only=True):
    type: Literal["function_call_output"]
    call_id: NonEmpty
    output: str | Parts
    id: str | None = None
    status: Status | None = None


class ReasoningText(Struct, frozen=True, kw_only=True):
    text: str


class ReasoningItem(Strict, frozen=True, kw_only=True):
    type: Literal["reasoning"]
    id: str | None = None
    summary: list[ReasoningText] | None = None
    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    status: Status | None = None


Item = MessageItem | FunctionCallItem | FunctionOutputItem | ReasoningItem


class FunctionTool(Strict, frozen=True, kw_only=True):
    type: Literal["function"]
    name: NonEmpty
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class NamedFunction(Strict, frozen=True, kw_only=True):
    type: Literal["function"]
    name: NonEmpty


class Parsed(Struct, frozen=True, kw_only=True):
    """A request all of which has been read."""

    request: ResponsesRequest
    items: tuple[Item, ...]
    tools: tuple[FunctionTool, ...] = ()
    choice: str | NamedFunction | None = None
    extra: dict[str, Raw] = field(default_factory=dict)  # names that a setting lets through unread
