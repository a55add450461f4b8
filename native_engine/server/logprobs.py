"""Probabilities of tokens in the two official forms. Knows no engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from native_engine.text.logprobs import TokenLogprobs

Spelling = Callable[[int], bytes]
_LEAST = -9999.0  # JSON has no infinity; the official service writes this too


def chat_logprobs(tokens: Sequence[TokenLogprobs], spelling: Spelling) -> dict[str, Any]:
    return {
        "content": [
            _entry(spelling(token.token_id), token.logprobs.chosen)
            | {"top_logprobs": [_entry(spelling(other), value) for other, value in token.logprobs.top]}
            for token in tokens
        ],
        "refusal": None,
    }


def completion_logprobs(tokens: Sequence[TokenLogprobs], spelling: Spelling) -> dict[str, Any]:
    """Four arrays side by side; the chosen token is always among its alternatives."""
    return {
        "tokens": [_name(spelling(token.token_id)) for token in tokens],
        "token_logprobs": [max(token.logprobs.chosen, _LEAST) for token in tokens],
        "top_logprobs": [
            {
                _name(spelling(other)): max(value, _LEAST)
                for other, value in (*token.logprobs.top, (token.token_id, token.logprobs.chosen))
            }
            for token in tokens
        ],
        "text_offset": [token.start for token in tokens],
    }


def _entry(spelled: bytes, logprob: float) -> dict[str, Any]:
    """`bytes` are exact where a token holds only a part of a character."""
    return {"token": spelled.decode(errors="replace"), "logprob": max(logprob, _LEAST), "bytes": list(spelled)}


def _name(spelled: bytes) -> str:
    """A key of its own also for a part of a character."""
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)
