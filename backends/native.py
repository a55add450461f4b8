"""Our own engine. What it has beyond the OpenAI API: the door's steering headers, /health, and its accounts."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from backends.base import Account, Backend
from backends.errors import BackendError, Broken, Rejected
from backends.openai import OpenAIBackend

_FINAL = frozenset({"finished", "aborted", "failed"})


class _Told(msgspec.Struct):
    state: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


class NativeBackend(OpenAIBackend):
    forwarded = frozenset({"x-request-id", "x-sekisho-cache-salt"})
    keeps_accounts = True

    async def ready(self) -> bool:
        try:
            await self._get("/health")
        except BackendError:
            return False
        return True

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


def create(url: str, api_key: str | None = None) -> Backend:
    return NativeBackend("native", url, api_key)
