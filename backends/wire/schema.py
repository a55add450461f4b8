"""The official request bodies and the engines' sampling extensions, validated once for door and engine alike.

Fields that steer an engine (priority, cache salt, request id, adapters, templates) are absent on purpose:
they are the door's alone to set, and a client that sends one is told so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

NonEmpty = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Positive = Annotated[int, Meta(ge=1, le=INT64_MAX)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = Annotated[float, Meta(ge=-100, le=100)]
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]


class StreamOptions(Struct, frozen=True, forbid_unknown_fields=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class Sampling(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What chat and completions have in common. Null and absent mean the same: the server's default."""

    model: NonEmpty
    max_tokens: Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    seed: Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)] | None = None
    stop: NonEmpty | Annotated[list[NonEmpty], Meta(max_length=4)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[Count, Bias] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = None
    # The engines' extensions.
    top_k: Annotated[int, Meta(ge=-1, le=INT64_MAX)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    min_tokens: Count | None = None
    ignore_eos: bool | None = None
    stop_token_ids: list[Count] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    bad_words: list[NonEmpty] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    add_special_tokens: bool | None = None
    structured_outputs: dict[str, Any] | None = None
    echo: bool | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream and self.stream_options and self.stream_options.include_usage)


class ContentPart(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "refusal", "image_url", "input_audio", "audio_url", "video_url", "file"]
    text: str | None = None
    refusal: str | None = None
    image_url: dict[str, Any] | str | None = None
    input_audio: dict[str, Any] | None = None
    audio_url: dict[str, Any] | str | None = None
    video_url: dict[str, Any] | str | None = None
    file: dict[str, Any] | None = None


class FunctionCall(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: str


class ToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    function: FunctionCall
    id: str | None = None
    type: Literal["function"] = "function"
    index: int | None = None


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One turn. Fields of an answer are taken back as they were given, since clients return whole messages."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[ContentPart], Meta(min_length=1)] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    audio: dict[str, Any] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class FunctionDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    name: NonEmpty
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["function"]
    function: FunctionDefinition


class ResponseFormat(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class ChatRequest(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionDefinition] | None = None
    function_call: str | dict[str, Any] | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    web_search_options: dict[str, Any] | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    # The engines' extensions.
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    @property
    def answers_each(self) -> int:
        return self.n or 1

    @property
    def output_limit(self) -> int | None:
        """`max_completion_tokens` is the newer name and wins."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def num_logprobs(self) -> int | None:
        """Alternatives to tell with each token; None where no probabilities are asked for."""
        return self.top_logprobs or 0 if self.logprobs else None


class CompletionRequest(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: str | Annotated[list[str | Count | list[Count]], Meta(min_length=1)]
    suffix: str | None = None
    best_of: Annotated[int, Meta(ge=1, le=128)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None

    @property
    def output_limit(self) -> int | None:
        return self.max_tokens

    @property
    def answers_each(self) -> int:
        """Answers to compute for each prompt; with `best_of` more than are shown."""
        return self.best_of or self.n or 1

    @property
    def num_logprobs(self) -> int | None:
        """Here 0 asks for the chosen token's own."""
        return self.logprobs

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts asked for, each as text or as token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[item for item in self.prompt if isinstance(item, int)]]
        return [item for item in self.prompt if not isinstance(item, int)]
