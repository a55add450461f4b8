"""Our own engine. What it has beyond the OpenAI API: the door's steering headers, /health, and its accounts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from backends.base import Account, Backend, Fields, ModelCard, Options, Refusal
from backends.errors import Broken, Rejected
from backends.openai import OpenAIBackend
from backends.refusals import unable

_TASK_OF = {"/v1/chat/completions": "generate", "/v1/completions": "generate", "/v1/embeddings": "embed"}
_OTHERWISE = {
    "generate": "This model generates text and makes no embeddings. Use one that does.",
    "embed": "This model makes embeddings and generates no text. Ask it at /v1/embeddings.",
}
# It cuts no input.
_IGNORED: Mapping[str, Any] = {"truncate_prompt_tokens": None}
_FINAL = frozenset({"finished", "aborted", "failed"})


class _Told(msgspec.Struct):
    state: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class NativeBackend(OpenAIBackend):
    kind = "native"
    forwarded = OpenAIBackend.forwarded | {"x-sekisho-cache-salt", "x-sekisho-class"}
    probed = ("/health",)
    keeps_accounts = True
    continues = True
    _task: str | None = None

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        """By what `models` last told; before that the engine itself refuses."""
        if path not in _TASK_OF:
            return Refusal("The native engine ranks nothing.", "model")
        if self._task not in (None, _TASK_OF[path]):
            return Refusal(_OTHERWISE[self._task], "model", "unsupported_model")
        return unable(fields, _IGNORED) if path == "/v1/embeddings" else None

    async def models(self) -> list[ModelCard]:
        cards = await super().models()
        told = cards[0].task if cards else None
        self._task = told if told in _OTHERWISE else None
        return cards

    async def account(self, request_id: str) -> Account | None:
        try:
            body = await self._get(f"/internal/requests/{quote(request_id, safe='')}")
            told = msgspec.json.decode(body, type=_Told)
        except Rejected as error:
            if error.status == 404:
                return None
            raise
        except msgspec.DecodeError as error:
            raise Broken("the engine's account cannot be read") from error
        return Account(told.prompt_tokens, told.completion_tokens, told.cached_tokens, ended=told.state in _FINAL)


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return NativeBackend(name, url, api_key, options)
