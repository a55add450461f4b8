"""Our own engine. What it has beyond the OpenAI API: the door's steering headers, /health, and its accounts."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from backends.base import Account, Backend, Fields, Options, Refusal
from backends.errors import Broken, Rejected
from backends.openai import OpenAIBackend

_GENERATES = frozenset({"/v1/chat/completions", "/v1/completions"})
_FINAL = frozenset({"finished", "aborted", "failed"})


class _Told(msgspec.Struct):
    state: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class NativeBackend(OpenAIBackend):
    kind = "native"
    forwarded = OpenAIBackend.forwarded | {"x-sekisho-cache-salt"}
    probed = ("/health",)
    keeps_accounts = True
    continues = True

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        if path in _GENERATES:
            return None
        return Refusal("The native engine generates text: it makes no embeddings and ranks nothing.", "model")

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
