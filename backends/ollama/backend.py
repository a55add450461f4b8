"""The adapter for Ollama's own API. Its /v1 is for the `openai` adapter, pointed there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from uuid import uuid4

import msgspec

from backends.base import Backend, Fields, Load, ModelCard, Options, Refusal, Upstream
from backends.errors import Broken, Rejected, TimedOut
from backends.estimate import PromptEstimates, PromptSize, size_of
from backends.ollama import answers, asking, embeddings, errors, models, refusals
from backends.ollama.answers import Answer
from backends.ollama.asking import Terms
from backends.ollama.models import Context, Traits
from backends.openai import OpenAIBackend
from backends.wire.embeddings import parse_embeddings
from backends.wire.errors import InvalidRequest, error_body
from backends.wire.requests import ChatRequest, parse_chat, parse_completion

_CHAT, _COMPLETIONS, _EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
_MAX_JSON_BYTES = 256 * 1024 * 1024
# A guess of a prompt's tokens is off by no more than this factor, nearly always; beyond it a prompt surely is too long.
_SURELY = 2
# A count so far below the guess for a prompt that hardly fits is not a bad guess: messages were left out.
_LEFT_OUT = 2
_WITHOUT = {
    "tools": "call tools",
    "vision": "read images",
    "thinking": "think before it answers",
}

_NO_TRAITS = Traits()
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OllamaBackend(OpenAIBackend):
    """`continues` is False: whether a last assistant message is continued is up to each model's template."""

    kind = "ollama"
    # It answers as soon as the process runs. A model that is not loaded is not warming: nothing is under way until a
    # request comes, and that request loads it.
    probed = ("/",)
    trusts_load = False

    def __init__(self, name: str, url: str, api_key: str | None, options: Options) -> None:
        super().__init__(name, url, api_key, options)
        self._capabilities = {"tools": options.tools, "vision": options.images}
        self._estimates = PromptEstimates()
        self._digests: dict[str, str] = {}
        self._traits: dict[str, Traits] = {}
        self._loaded: dict[str, int | None] = {}
        self._tells_context = True  # until it lists a loaded model without

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        try:
            return refusals.unsupported(path, fields) or self._beyond_the_model(fields)
        except msgspec.DecodeError:
            return Refusal("The request cannot be read.", code="invalid_json")

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        try:
            fields = _split(body)
            # Asked again, for only now the model is under the name that this engine knows.
            if refused := self.refusal(path, fields):
                raise InvalidRequest(*refused)
            if path == _EMBEDDINGS:
                return await self._embed(body, headers)
            return await self._generate(path, body, fields, headers)
        except InvalidRequest as error:
            raise Rejected(400, error.body()) from error
        except msgspec.DecodeError as error:
            raise Rejected(400, error_body("The request cannot be read.", "invalid_request_error")) from error

    async def models(self) -> list[ModelCard]:
        try:
            digests = models.digests_of(await self._get("/api/tags"))
            self._loaded = models.loaded_contexts_of(await self._get("/api/ps"))
        except msgspec.DecodeError as error:
            raise Broken("the engine's model list cannot be read") from error
        if self._loaded:
            self._tells_context = None not in self._loaded.values()
        await self._learn_traits(digests)
        return [ModelCard(name, self._context(name).told, "ollama") for name in digests]

    async def load(self) -> Load:
        """It tells nothing of its load: /api/ps lists what is in memory, not what is running."""
        return Load()

    async def _learn_traits(self, digests: dict[str, str]) -> None:
        """Asks again only for models that are new or have changed. One that cannot be read is left to the engine."""
        known = {name: self._traits[name] for name, digest in digests.items() if self._digests.get(name) == digest}
        for name in digests.keys() - known.keys():
            try:
                known[name] = models.traits_of(await self._show(name))
            except (Rejected, msgspec.DecodeError):
                known[name] = _NO_TRAITS
        self._traits, self._digests = known, digests

    async def _show(self, name: str) -> bytes:
        try:
            async with asyncio.timeout(self.patience):
                return await self._read("/api/show", msgspec.json.encode({"model": name}), {})
        except TimeoutError as error:
            raise TimedOut(f"nothing was told of a model within {self.patience:g} seconds") from error

    def _beyond_the_model(self, fields: Fields) -> Refusal | None:
        wanted = refusals.needs(fields)
        if not wanted:
            return None
        traits = self._traits_of(msgspec.json.decode(fields.get("model", b'""'), type=str))
        for what, field in wanted.items():
            if not models.can(self._capabilities, traits, what):
                return Refusal(f"This model cannot {_WITHOUT[what]}. Leave it out, or choose another model.", field)
        return None

    async def _generate(self, path: str, body: bytes, fields: Fields, headers: Mapping[str, str]) -> Upstream:
        request = parse_chat(body) if path == _CHAT else parse_completion(body)
        terms = self._terms(request.model)
        judge = self._judge(request.model, size_of(body), terms.context)
        if isinstance(request, ChatRequest):
            form, sent = answers.CHAT, asking.chat(request, fields.get("tools"), terms)
        else:
            form, sent = answers.COMPLETION, asking.completion(request, terms)
        upstream = await self._ask("/api/chat" if path == _CHAT else "/api/generate", sent, headers)
        return _Translated(upstream, Answer(form, headers.get("x-request-id", uuid4().hex), request.model, judge))

    async def _embed(self, body: bytes, headers: Mapping[str, str]) -> Upstream:
        asked = parse_embeddings(body)
        sent = asking.embedding(asked, self._terms(asked.model))
        return _Whole(embeddings.official(asked, await self._read("/api/embed", sent, headers)))

    async def _ask(self, path: str, sent: bytes, headers: Mapping[str, str]) -> Upstream:
        try:
            return await super().open(path, sent, headers)
        except Rejected as rejected:
            raise errors.official(rejected) from rejected

    async def _read(self, path: str, sent: bytes, headers: Mapping[str, str]) -> bytes:
        """The whole of a JSON answer."""
        upstream = await self._ask(path, sent, headers)
        pieces, size = [], 0
        try:
            async for piece in upstream.chunks():
                pieces.append(piece)
                size += len(piece)
                if size > _MAX_JSON_BYTES:
                    raise Broken(f"an answer of more than {_MAX_JSON_BYTES} bytes")
        finally:
            await upstream.aclose()
        return b"".join(pieces)

    def _traits_of(self, model: str) -> Traits:
        return self._traits.get(models.full_name(model), _NO_TRAITS)

    def _context(self, model: str) -> Context:
        loaded = self._loaded.get(models.full_name(model))
        return models.context_of(self._traits_of(model), self.options.num_ctx, loaded, self._tells_context)

    def _terms(self, model: str) -> Terms:
        context = self._context(model)
        return Terms(context.sent, context.known, self.options.keep_alive, self._traits_of(model).thinks_by_level)

    def _judge(self, model: str, size: PromptSize, context: int | None) -> answers.Judge:
        """Refuses at once what surely is too long. The judge that it returns learns from the counts of what was not."""
        # Of the text alone: what an image costs differs too much from model to model.
        guess = self._estimates.tokens(model, size._replace(attachments=0))
        if context is not None and guess >= _SURELY * context:
            raise InvalidRequest(
                f"The prompt has about {guess} tokens (an estimate), more than the model's context length of "
                f"{context} tokens. Shorten it.",
                code="context_length_exceeded",
            )

        def judge(prompt: int, output: int) -> str | None:
            fault = None if context is None else _overflow(context, guess, prompt, output)
            if fault is None:
                self._estimates.learn(model, size, prompt)
            return fault

        return judge


def _overflow(context: int, guess: int, prompt: int, output: int) -> str | None:
    """Older versions cut what is too long and say nothing; only the counts tell. A count of 0 is none."""
    if prompt >= context:
        return (
            f"The prompt was cut to the model's context length of {context} tokens, so this answer is not to what "
            f"was asked. The prompt has about {guess} tokens (an estimate). Shorten it."
        )
    # The last token is never read again, so it may stand beyond the context.
    if prompt + output > context + 1:
        return (
            f"Prompt and answer together outgrew the model's context length of {context} tokens, and parts of the "
            "prompt were forgotten. Shorten the prompt, or ask for fewer tokens (max_tokens)."
        )
    if guess > context and 0 < prompt * _LEFT_OUT < guess:
        return (
            f"Older messages were left out to keep to the model's context length of {context} tokens: the model read "
            f"{prompt} of about {guess} tokens (an estimate). Shorten the conversation."
        )
    return None


class _Translated:
    """An Upstream whose lines come out as events."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, upstream: Upstream, answer: Answer) -> None:
        self._upstream = upstream
        self._answer = answer

    async def chunks(self) -> AsyncIterator[bytes]:
        feed = self._answer.feed
        async for data in self._upstream.chunks():
            if events := feed(data):
                yield events
        if events := self._answer.end():
            yield events

    async def aclose(self) -> None:
        await self._upstream.aclose()


class _Whole:
    """An Upstream that has come."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        """The connection was given back with the last byte."""


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return OllamaBackend(name, url, api_key, options)
