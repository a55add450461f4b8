"""SGLang. What it has beyond the OpenAI API, what it tells of itself, and what it would ignore."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from backends import refusals, translation
from backends.base import Backend, Fields, Load, ModelCard, Options, Refusal, Upstream
from backends.errors import BackendError, Broken, Rejected
from backends.openai import OpenAIBackend

_UNABLE: Mapping[str, Any] = {
    **refusals.NOWHERE,
    "bad_words": [],
    "prompt_logprobs": None,
    "typical_p": 1.0,
    "structured_outputs": {},
    "include_stop_str_in_output": False,
    "spaces_between_special_tokens": True,
    "add_special_tokens": None,
    "truncate_prompt_tokens": None,
}
_UNABLE_IN_CHAT = {**_UNABLE, "echo": False}


class _ModelInfo(msgspec.Struct):
    tool_call_parser: str | None = None
    has_image_understanding: bool = False


class _Load(msgspec.Struct):
    num_running_reqs: int
    num_waiting_reqs: int
    num_used_tokens: int
    max_total_num_tokens: int
    token_usage: float
    max_running_requests: int


class _Loads(msgspec.Struct):
    loads: list[_Load]


class _Wanted(msgspec.Struct):
    """Of a reranking request what shapes its answer."""

    model: str
    top_n: int | None = None
    return_documents: bool | None = None


class _Cost(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0


class _Ranked(msgspec.Struct):
    index: int
    score: float
    document: msgspec.Raw = msgspec.Raw(b"null")
    meta_info: _Cost = _Cost()


class SGLangBackend(OpenAIBackend):
    """Without `Options` its own word counts for tools and images.

    A seed is passed on, and promises nothing: unless it was started to be deterministic, it repeats no text.
    """

    kind = "sglang"
    forwarded = frozenset({"traceparent"})
    # The one knows our key and answers before the model is ready; the other takes a second, idle or busy.
    probed = ("/v1/models", "/health")
    patience = 10.0
    probe_seconds = 15.0
    continues = True
    trusts_load = False  # seen to be seconds old

    def __init__(self, name: str, url: str, api_key: str | None = None, options: Options | None = None) -> None:
        super().__init__(name, url, api_key, options or Options())
        self._info = _ModelInfo()

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        options, info = self.options, self._info
        calls_tools = bool(info.tool_call_parser) if options.tools is None else options.tools
        images = info.has_image_understanding if options.images is None else options.images
        return (
            refusals.unable(fields, _UNABLE_IN_CHAT if path == "/v1/chat/completions" else _UNABLE)
            or refusals.too_many_answers(fields)
            or refusals.unreadable_content(fields, images=images)
            # Without a parser a forced call would come as text.
            or (None if calls_tools else refusals.tools(fields))
            or _without_a_new_turn(fields)
        )

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        upstream = await super().open(path, self._translated(path, body, headers), headers)
        return _Ranking(upstream, msgspec.json.decode(body, type=_Wanted)) if path == "/v1/rerank" else upstream

    async def models(self) -> list[ModelCard]:
        cards = await super().models()
        with suppress(BackendError, msgspec.DecodeError):  # an older one does not tell
            self._info = msgspec.json.decode(await self._get("/model_info"), type=_ModelInfo)
        return cards

    async def load(self) -> Load:
        try:
            told = msgspec.json.decode(await self._get("/v1/loads"), type=_Loads).loads
        except Rejected:
            return await super().load()  # an older one, if it was started with metrics
        except msgspec.DecodeError as error:
            raise Broken("the engine's load cannot be read") from error
        total = sum(each.max_total_num_tokens for each in told)
        return Load(
            running=sum(each.num_running_reqs for each in told),
            waiting=sum(each.num_waiting_reqs for each in told),
            kv_use=sum(each.token_usage for each in told) / len(told) if told else None,
            kv_blocks_total=total,
            kv_blocks_free=total - sum(each.num_used_tokens for each in told),
            block_size=1,  # it counts tokens
            slots=sum(each.max_running_requests for each in told),
        )

    def _translated(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        fields = translation.split(body)
        if translation.generates(path):
            fields |= translation.salt(headers)
            if refusals.answers(fields) == 1:
                fields["rid"] = translation.attempt_id(headers)  # one id would not do for several
            if self.options.priority:
                fields["priority"] = len(translation.CLASSES) - translation.rank(headers)  # the highest goes first
        return msgspec.json.encode(fields)


class _Ranking:
    """A ranking, which SGLang tells as a bare list, in the form that is read everywhere else."""

    def __init__(self, upstream: Upstream, wanted: _Wanted) -> None:
        self.status = upstream.status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._upstream = upstream
        self._wanted = wanted

    async def chunks(self) -> AsyncIterator[bytes]:
        body = b"".join([chunk async for chunk in self._upstream.chunks()])
        try:
            ranked = msgspec.json.decode(body, type=list[_Ranked])
        except msgspec.DecodeError as error:
            raise Broken("the engine's ranking cannot be read") from error
        tokens = sum(each.meta_info.prompt_tokens for each in ranked)
        results = [self._result(each) for each in ranked[: self._wanted.top_n]]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        yield msgspec.json.encode({"model": self._wanted.model, "results": results, "usage": usage})

    async def aclose(self) -> None:
        await self._upstream.aclose()

    def _result(self, ranked: _Ranked) -> dict[str, Any]:
        result = {"index": ranked.index, "relevance_score": ranked.score}
        return result | {"document": {"text": ranked.document}} if self._wanted.return_documents else result


def _without_a_new_turn(fields: Fields) -> Refusal | None:
    """It ignores `add_generation_prompt`, which `continue_final_message` alone makes true."""
    begins = not refusals.says(fields, "add_generation_prompt", b"false")
    if begins or refusals.says(fields, "continue_final_message", b"true"):
        return None
    return refusals.unable(fields, {"add_generation_prompt": True})


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return SGLangBackend(name, url, api_key, options)
