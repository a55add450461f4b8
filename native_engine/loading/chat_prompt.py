"""Chat messages to token ids, such that only the template, never a user, can write control tokens."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from native_engine.loading.chat_template import ChatTemplate, Message
from native_engine.loading.tokenizer import Tokenizer
from native_engine.text.answer_style import all_mark_ids

_UNTRUSTED = ("user", "tool")


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    variables: Mapping[str, Any] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> list[int]:
    """The template writes BOS itself where it belongs, so none is added here.

    A control token's text inside a message gets an invisible seam after its first character. The rendered text is
    encoded in the pieces between the seams, and no piece holds the control token. Of what users and tools wrote, and
    of the tools, the marks of thoughts and calls are text too; an assistant has written its own.
    """
    seam = f"\ue000{secrets.token_hex(8)}\ue001"  # random, so that no message can hold it
    shield = _Shield(tokenizer.special_texts, seam)
    strict = _Shield(tokenizer.special_texts | all_mark_ids(tokenizer).keys(), seam)
    text = template.render(
        [
            {
                key: value if key == "role" else (strict if each.get("role") in _UNTRUSTED else shield)(value)
                for key, value in each.items()
            }
            for each in messages
        ],
        add_generation_prompt=add_generation_prompt,
        continue_final_message=continue_final_message,
        variables=shield(dict(variables or {})),
        tools=strict(tools),
    )
    return [token for piece in text.split(seam) for token in tokenizer.encode(piece, add_special=False)]


class _Shield:
    """Puts the seam into every control token's text, in strings however deep they lie."""

    def __init__(self, special_texts: frozenset[str], seam: str) -> None:
        longest_first = sorted((text for text in special_texts if len(text) > 1), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._seam = seam

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._pattern.sub(self._cut, value) if self._pattern else value
        if isinstance(value, list | tuple):
            return [self(each) for each in value]
        if isinstance(value, Mapping):
            return {key: self(each) for key, each in value.items()}
        return value

    def _cut(self, match: re.Match[str]) -> str:
        return match[0][0] + self._seam + match[0][1:]
