"""From a validated request to token ids and sampling parameters, or a refusal with the numbers. Knows no sockets."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from backends.wire.errors import InvalidRequest
from backends.wire.requests import text_of
from backends.wire.schema import ChatRequest, CompletionRequest, Message
from native_engine.loading.chat_prompt import encode_chat
from native_engine.loading.chat_template import ChatTemplate, TemplateRefused
from native_engine.request import SamplingParams
from native_engine.server.service import Service
from native_engine.server.tools import shown_tools
from native_engine.text.bad_words import spellings

_HARMONY_THOUGHTS = "thinking"  # gpt-oss has a name of its own for them


async def chat_prompt(service: Service, request: ChatRequest) -> list[int]:
    length = sum(len(part) for message in request.messages for part in _texts(message))
    length += sum(len(str(tool)) for tool in shown_tools(request) or ())
    return await service.in_turn(length, lambda: encode_messages(service, request))


async def completion_prompts(service: Service, request: CompletionRequest) -> list[list[int]]:
    """Control tokens written in a raw prompt are control tokens: that is what raw prompts are for."""
    add_special = request.add_special_tokens is not False
    prompts = request.prompts
    length = sum(len(prompt) for prompt in prompts if isinstance(prompt, str))
    found = await service.in_turn(
        length,
        lambda: [service.tokenizer.encode(each, add_special) if isinstance(each, str) else each for each in prompts],
    )
    for ids in found:
        if not ids:
            raise InvalidRequest("'prompt' is empty: at least one token is needed.", "prompt", "invalid_value")
        _check_ids(service, ids, "prompt")
    return found


def encode_messages(service: Service, request: ChatRequest) -> list[int]:
    if service.template is None:
        raise InvalidRequest(
            f"The model '{service.info.name}' has no chat template; use /v1/completions.",
            "messages",
            "no_chat_template",
        )
    if request.continue_final_message and request.messages[-1].role != "assistant":
        raise InvalidRequest(
            "'continue_final_message' needs a last message of the assistant.", "continue_final_message"
        )
    short_ids = service.style.calls is not None and service.style.calls.short_ids
    try:
        return encode_chat(
            service.tokenizer,
            service.template,
            [
                template_message(
                    message, f"messages[{index}]", thoughts=_thoughts_key(service.template), short_ids=short_ids
                )
                for index, message in enumerate(request.messages)
            ],
            add_generation_prompt=request.add_generation_prompt is not False,
            continue_final_message=bool(request.continue_final_message),
            variables=_variables(request, service.template),
            tools=shown_tools(request),
        )
    except TemplateRefused as fault:
        raise InvalidRequest(
            f"The model's chat template does not accept these messages: {fault}.", "messages", "invalid_value"
        ) from fault


def template_message(
    message: Message, where: str, *, thoughts: str = "reasoning_content", short_ids: bool = False
) -> dict[str, Any]:
    """As templates know messages: text content, the older name of the developer role, arguments as objects.

    `thoughts`: the key that they stand under. `short_ids`: of nine letters and digits, which Mistral's templates
    insist on.
    """
    made: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": text_of(message, where),
    }
    thought = message.reasoning if message.reasoning_content is None else message.reasoning_content
    if thoughts == _HARMONY_THOUGHTS and message.tool_calls and made["content"]:
        thought = None  # the template refuses both beside a call
    for name, value in (("name", message.name), ("tool_call_id", message.tool_call_id), (thoughts, thought)):
        if value is not None:
            made[name] = value
    if message.tool_calls:
        made["tool_calls"] = [_tool_call(msgspec.to_builtins(call)) for call in message.tool_calls]
    if short_ids:
        for named, key in ((made, "tool_call_id"), *((call, "id") for call in made.get("tool_calls", ()))):
            if named.get(key):
                named[key] = hashlib.sha256(named[key].encode()).hexdigest()[:9]
    return made


def _thoughts_key(template: ChatTemplate) -> str:
    return _HARMONY_THOUGHTS if f"message.{_HARMONY_THOUGHTS}" in template.source else "reasoning_content"


def _variables(request: ChatRequest, template: ChatTemplate) -> dict[str, Any]:
    """What the template is told; an effort of none is no thinking, where it knows only whether to think."""
    variables, effort = dict(request.chat_template_kwargs or {}), request.reasoning_effort
    if effort is None:
        return variables
    if "reasoning_effort" in template.variables:
        return {"reasoning_effort": effort, **variables}
    if "enable_thinking" in template.variables:
        return {"enable_thinking": effort != "none", **variables}
    if effort != "none":
        raise InvalidRequest(
            "'reasoning_effort' is not supported by this model: its chat template knows no such thing.",
            "reasoning_effort",
            "unsupported_parameter",
        )
    return variables


def sampling_params(
    request: ChatRequest | CompletionRequest, num_prompt_tokens: int, service: Service, field: str
) -> SamplingParams:
    """Without a limit of its own an answer may fill what the context still holds."""
    output_limit = request.output_limit
    room = _room(output_limit, num_prompt_tokens, service.info.max_model_len, field)
    _check_ids(service, request.stop_token_ids or [], "stop_token_ids")
    _check_ids(service, request.logit_bias or [], "logit_bias")
    bad_words = tuple(request.bad_words or ())
    try:
        return SamplingParams(
            max_tokens=room if output_limit is None else output_limit,
            min_tokens=request.min_tokens or 0,
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=max(request.top_k or 0, 0),
            min_p=request.min_p or 0.0,
            typical_p=1.0 if request.typical_p is None else request.typical_p,
            presence_penalty=request.presence_penalty or 0.0,
            frequency_penalty=request.frequency_penalty or 0.0,
            repetition_penalty=1.0 if request.repetition_penalty is None else request.repetition_penalty,
            logit_bias=request.logit_bias,
            bad_words=bad_words,
            bad_words_ids=spellings(bad_words, service.tokenizer),
            seed=request.seed,
            stop=request.stops,
            stop_token_ids=frozenset(request.stop_token_ids or ()),
            ignore_eos=bool(request.ignore_eos),
            logprobs=_logprobs(request),
            prompt_logprobs=_prompt_logprobs(request),
        )
    except ValueError as fault:
        message = str(fault)
        raise InvalidRequest(f"Invalid value: {message}.", message.split(" ", 1)[0], "invalid_value") from fault


def _logprobs(request: ChatRequest | CompletionRequest) -> int | None:
    """The best of several answers is told by them too."""
    chooses = request.answers_each > (request.n or 1)
    return 0 if chooses and request.num_logprobs is None else request.num_logprobs


def _prompt_logprobs(request: ChatRequest | CompletionRequest) -> int | None:
    if not request.echo or request.num_logprobs is None:
        return request.prompt_logprobs
    return max(request.num_logprobs, request.prompt_logprobs or 0)


def _room(output_limit: int | None, num_prompt_tokens: int, limit: int, field: str) -> int:
    """Both numbers in the message, in the words that clients of the official API look for."""
    room = limit - num_prompt_tokens
    if room < 1:
        raise InvalidRequest(
            f"This model's maximum context length is {limit} tokens. However, your {field} resulted in "
            f"{num_prompt_tokens} tokens, and at least one is needed for the answer. Please reduce the length of the "
            f"{field}.",
            field,
            "context_length_exceeded",
        )
    if output_limit is not None and output_limit > room:
        raise InvalidRequest(
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{num_prompt_tokens + output_limit} tokens ({num_prompt_tokens} in the {field}, {output_limit} in the "
            f"completion). Please reduce the length of the {field} or completion.",
            field,
            "context_length_exceeded",
        )
    return room


def _texts(message: Message) -> list[str]:
    if message.content is None or isinstance(message.content, str):
        return [message.content or ""]
    return [part.text or "" for part in message.content]


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):  # a model wrote it; templates can print bare text too
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return call


def _check_ids(service: Service, ids: Iterable[int], field: str) -> None:
    largest, size = max(ids, default=0), service.tokenizer.vocab_size
    if largest >= size:
        raise InvalidRequest(
            f"'{field}' holds the token id {largest}, but this model knows {size} tokens.", field, "invalid_value"
        )
