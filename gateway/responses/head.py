"""What a response says of its request, whatever is answered."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.responses.schema import NamedFunction, Parsed, TextConfig

# Told as they were asked.
_ECHOED = (
    "model",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "temperature",
    "top_p",
    "top_logprobs",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
)


def head(parsed: Parsed, request_id: str, created: int) -> dict[str, Any]:
    """`created` in seconds since the epoch."""
    request = parsed.request
    choice = parsed.choice
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": created,
        **{name: getattr(request, name) for name in _ECHOED},
        "metadata": request.metadata or {},
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "tool_choice": msgspec.to_builtins(choice) if isinstance(choice, NamedFunction) else choice or "auto",
        "tools": [msgspec.to_builtins(tool) for tool in parsed.tools],
        "text": _text(request.text),
        "reasoning": {"effort": request.reasoning.effort if request.reasoning else None, "summary": None},
        "truncation": "disabled",
        "background": False,
        "previous_response_id": None,
        "store": False,
    }


def _text(config: TextConfig | None) -> dict[str, Any]:
    told = {"format": {"type": "text"}} | (_given(config) if config else {})
    return told | ({"format": _given(config.format)} if config and config.format else {})


def _given(struct: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(struct).items() if value is not None}
