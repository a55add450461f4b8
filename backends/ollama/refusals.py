"""What cannot be asked of Ollama, told by the fields of a request: what it would ignore in silence is refused by name.

Knows no model: what one model can and another cannot is `needs`, and for the adapter to compare.
"""

from __future__ import annotations

from typing import Any

import msgspec

from backends.base import Fields, Refusal

_SAMPLING = frozenset(
    {"model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop"}
    | {"presence_penalty", "frequency_penalty", "repetition_penalty"}
)
_TRANSLATED = {
    "/v1/chat/completions": _SAMPLING
    | {"messages", "max_completion_tokens", "tools", "response_format", "reasoning_effort"},
    "/v1/completions": _SAMPLING | {"prompt"},
    "/v1/embeddings": frozenset({"model", "input", "encoding_format", "dimensions"}),
}
# They are about who asks and how it is stored or sped up; no answer would differ.
_OF_NO_EFFECT = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier"}
    | {"prompt_cache_key", "prompt_cache_retention", "prediction"}
)
# Harmless at these values, which are what Ollama does anyway; anything else would be ignored.
_AS_IT_IS: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True,),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
    "chat_template_kwargs": ({},),
    "modalities": (["text"],),
    "verbosity": ("medium",),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "add_special_tokens": (True,),
    "structured_outputs": ({},),
    "echo": (False,),
    "suffix": ("",),
}


class _Part(msgspec.Struct):
    type: str = ""
    image_url: Any = None


class _Turn(msgspec.Struct):
    content: str | list[_Part] | None = None
    function_call: Any = None


_turns = msgspec.json.Decoder(list[_Turn]).decode


def unsupported(path: str, fields: Fields) -> Refusal | None:
    """The first thing in the request that Ollama cannot do, whatever the model."""
    translated = _TRANSLATED.get(path)
    if translated is None:
        return Refusal(
            f"This model's engine, Ollama, has no {path}. Choose another model.", None, "unsupported_endpoint"
        )
    for name, value in fields.items():
        known = name in translated or name in _OF_NO_EFFECT
        if not known and not _is_as_usual(name, msgspec.json.decode(value)):
            return _cannot(name)
    return _in_messages(fields) or _in_prompt(fields) or _in_input(fields)


def needs(fields: Fields) -> dict[str, str]:
    """What the model must be able to do for this request, in Ollama's words, and the field that asks for it."""
    wanted = {}
    if _value(fields, "tools") and _value(fields, "tool_choice") != "none":
        wanted["tools"] = "tools"
    if _value(fields, "reasoning_effort") not in (None, "none"):
        wanted["thinking"] = "reasoning_effort"
    for index, turn in enumerate(_turns_with_parts(fields)):
        if isinstance(turn.content, list) and any(part.type == "image_url" for part in turn.content):
            wanted["vision"] = f"messages[{index}].content"
    return wanted


def image_url(part_value: Any) -> str:
    """The URL of an image part, whose value is an object or, from older clients, the URL itself."""
    return str(part_value.get("url", "") if isinstance(part_value, dict) else part_value)


def _cannot(name: str) -> Refusal:
    usual = _AS_IT_IS.get(name)
    allowed = f" other than {msgspec.json.encode(usual[0]).decode()}" if usual else ""
    return Refusal(f"This model's engine, Ollama, has no '{name[:100]}'{allowed}. Leave it out.", name[:100])


def _is_as_usual(name: str, value: Any) -> bool:
    # 0, False and 0.0 are equal to Python, and not to those who wrote the request.
    return value is None or any(type(value) is type(one) and value == one for one in _AS_IT_IS.get(name, ()))


def _value(fields: Fields, name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _turns_with_parts(fields: Fields) -> list[_Turn]:
    """The messages, read only where one of them can have more than text."""
    messages = bytes(fields.get("messages", b""))
    return _turns(messages) if b'"type"' in messages or b'"function_call"' in messages else []


def _in_messages(fields: Fields) -> Refusal | None:
    for index, turn in enumerate(_turns_with_parts(fields)):
        where = f"messages[{index}]"
        if turn.function_call is not None:
            return Refusal(f"'{where}.function_call' is not supported. Use tool_calls.", f"{where}.function_call")
        for place, part in enumerate(turn.content if isinstance(turn.content, list) else ()):
            if refused := _of_part(part, f"{where}.content[{place}]"):
                return refused
    return None


def _of_part(part: _Part, where: str) -> Refusal | None:
    if part.type not in ("text", "refusal", "image_url"):
        message = f"This model's engine, Ollama, reads text and images, not a content part of type '{part.type[:100]}'."
        return Refusal(message, f"{where}.type", "unsupported_content")
    if part.type == "image_url" and not _is_data_url(image_url(part.image_url)):
        message = "Images are read from the request alone: send a base64 data URL, not the address of an image."
        return Refusal(message, f"{where}.image_url", "unsupported_content")
    return None


def _is_data_url(url: str) -> bool:
    head, comma, _ = url.partition(",")
    return bool(comma) and head.startswith("data:") and head.endswith(";base64")


def _in_prompt(fields: Fields) -> Refusal | None:
    if "prompt" not in fields:
        return None
    prompt = _value(fields, "prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    # An empty prompt only loads the model.
    if isinstance(prompt, str) and prompt:
        return None
    return Refusal("This model's engine, Ollama, takes one prompt, as text that is not empty.", "prompt")


def _in_input(fields: Fields) -> Refusal | None:
    if "input" not in fields:
        return None
    given = _value(fields, "input")
    if isinstance(given, str) or (isinstance(given, list) and all(isinstance(one, str) for one in given)):
        return None
    return Refusal("This model's engine, Ollama, takes text as 'input', not token ids.", "input")
