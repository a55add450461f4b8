"""An official request in Ollama's words, as the bytes to send. Expects one that `refusals` has let pass.

What a request does not say is left to the model's own file, as the other engines leave it to the model's own settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from backends.ollama.refusals import image_url
from backends.wire.embeddings import EmbeddingsRequest
from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, CompletionRequest, Message, Sampling, ToolCall

# Ollama counts seeds in less than the official 64 bits and takes -1 for "any".
_SEEDS = 2**31
_LEVELS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

_encode = msgspec.json.Encoder().encode
_arguments = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Terms(NamedTuple):
    """What is the same for all requests to a model: another num_ctx would load it anew."""

    num_ctx: int | None = None  # to send
    context: int | None = None  # as far as it is known
    keep_alive: str | None = None
    thinks_by_level: bool = False

    def always(self) -> dict[str, Any]:
        """Fields of every request, `options` left to be filled."""
        sent: dict[str, Any] = {"options": {} if self.num_ctx is None else {"num_ctx": self.num_ctx}}
        if self.keep_alive is not None:
            bare = self.keep_alive.lstrip("-").isdigit()  # seconds, or -1 for ever; a text would have to bear a unit
            sent["keep_alive"] = int(self.keep_alive) if bare else self.keep_alive
        return sent


def chat(request: ChatRequest, tools: msgspec.Raw | None, terms: Terms) -> bytes:
    """The body for /api/chat. `tools` as the client sent them. Raises InvalidRequest."""
    body = terms.always() | _never_cut(request.model)
    body["messages"] = _messages(request.messages)
    body["options"] |= _options(request, request.max_tokens, request.max_completion_tokens, terms)
    if request.tools and request.tool_choice != "none":
        body["tools"] = tools
    if request.response_format is not None and request.response_format.type != "text":
        body["format"] = (request.response_format.json_schema or {}).get("schema") or "json"
    if request.reasoning_effort is not None:
        body["think"] = _think(request.reasoning_effort, terms.thinks_by_level)
    return _encode(body)


def completion(request: CompletionRequest, terms: Terms) -> bytes:
    """The body for /api/generate: raw, for a prompt that is to be continued must not be put into a chat template."""
    body = terms.always() | _never_cut(request.model) | {"prompt": request.prompts[0], "raw": True}
    body["options"] |= _options(request, request.max_tokens, None, terms)
    return _encode(body)


def embedding(request: EmbeddingsRequest, terms: Terms) -> bytes:
    """The body for /api/embed."""
    body = terms.always() | {"model": request.model, "input": request.input, "truncate": False}
    return _encode(body if request.dimensions is None else body | {"dimensions": request.dimensions})


def _never_cut(model: str) -> dict[str, Any]:
    # Newer versions then refuse a prompt that is too long, and end an answer that fills the context.
    return {"model": model, "stream": True, "truncate": False, "shift": False}


def _options(
    request: Sampling, max_tokens: int | None, max_completion_tokens: int | None, terms: Terms
) -> dict[str, Any]:
    options = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": None if request.top_k is None else max(request.top_k, 0),
        "min_p": request.min_p,
        "seed": None if request.seed is None else request.seed % _SEEDS,
        "stop": list(request.stops) or None,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "repeat_penalty": request.repetition_penalty,
        # No answer is longer than the context: unbounded, an older version would forget the prompt to go on.
        "num_predict": min(filter(None, (max_tokens, max_completion_tokens, terms.context)), default=None),
    }
    return {name: value for name, value in options.items() if value is not None}


def _think(effort: str, by_level: bool) -> bool | str:
    if effort == "none":
        return False
    return _LEVELS.get(effort, "medium") if by_level else True


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    called: dict[str, str] = {}  # id of a call: the tool's name, by which Ollama knows a result
    made = []
    for index, message in enumerate(messages):
        turn = _turn(message, index)
        called |= {call.id: call.function.name for call in message.tool_calls or () if call.id}
        if message.role == "tool" and message.tool_call_id is not None:
            turn["tool_call_id"] = message.tool_call_id
            if name := message.name or called.get(message.tool_call_id):
                turn["tool_name"] = name
        made.append(turn)
    return made


def _turn(message: Message, index: int) -> dict[str, Any]:
    turn: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _text(message),
    }
    if images := _images(message):
        turn["images"] = images
    if thinking := message.reasoning_content or message.reasoning:
        turn["thinking"] = thinking
    if message.tool_calls:
        where = f"messages[{index}].tool_calls"
        turn["tool_calls"] = [_call(call, f"{where}[{number}]") for number, call in enumerate(message.tool_calls)]
    return turn


def _text(message: Message) -> str:
    if isinstance(message.content, list):
        return "\n".join(part.text or part.refusal or "" for part in message.content if part.type != "image_url")
    return message.content or message.refusal or ""


def _images(message: Message) -> list[str]:
    parts = message.content if isinstance(message.content, list) else ()
    return [image_url(part.image_url).partition(",")[2] for part in parts if part.type == "image_url"]


def _call(call: ToolCall, where: str) -> dict[str, Any]:
    try:
        arguments = _arguments(call.function.arguments or "{}")
    except msgspec.DecodeError:
        field = f"{where}.function.arguments"
        raise InvalidRequest(f"'{field}' is not a JSON object.", field, "invalid_value") from None
    made: dict[str, Any] = {"function": {"name": call.function.name, "arguments": arguments}}
    return made | {"id": call.id} if call.id else made
