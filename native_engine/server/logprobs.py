"""Probabilities of tokens in the two official forms. Knows no engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from native_engine.request import Logprobs
from native_engine.text.logprobs import UNKNOWN, TokenLogprobs

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
    """Four arrays side by side; the chosen token is always among its alternatives. A prompt's first has none."""
    return {
        "tokens": [_name(spelling(token.token_id)) for token in tokens],
        "token_logprobs": [
            None if token.logprobs is UNKNOWN else max(token.logprobs.chosen, _LEAST) for token in tokens
        ],
        "top_logprobs": [None if token.logprobs is UNKNOWN else _alternatives(token, spelling) for token in tokens],
        "text_offset": [token.start for token in tokens],
    }


def prompt_logprobs(
    tokens: Sequence[int], told: Sequence[Logprobs], count: int, spelling: Spelling
) -> list[dict[str, Any] | None]:
    """vLLM's form: for each token of a prompt what the model thought of it and of the `count` likeliest, by their ids;
    of the first nothing."""
    return [None, *(_by_id(token, each, count, spelling) for token, each in zip(tokens[1:], told, strict=True))]


def _by_id(token: int, told: Logprobs, count: int, spelling: Spelling) -> dict[str, Any]:
    ranked = [(token, told.chosen, told.rank)]
    ranked += [(other, value, rank) for rank, (other, value) in enumerate(told.top[:count], 1) if other != token]
    return {
        str(each): {
            "logprob": max(value, _LEAST),
            "rank": rank,
            "decoded_token": spelling(each).decode(errors="replace"),
        }
        for each, value, rank in ranked
    }


def _alternatives(token: TokenLogprobs, spelling: Spelling) -> dict[str, float]:
    told = (*token.logprobs.top, (token.token_id, token.logprobs.chosen))
    return {_name(spelling(other)): max(value, _LEAST) for other, value in told}


def _entry(spelled: bytes, logprob: float) -> dict[str, Any]:
    """`bytes` are exact where a token holds only a part of a character."""
    return {"token": spelled.decode(errors="replace"), "logprob": max(logprob, _LEAST), "bytes": list(spelled)}


def _name(spelled: bytes) -> str:
    """A key of its own also for a part of a character."""
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)
