"""llama.cpp's server. What it tells of itself, what it would ignore, and what it calls its own fault and is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from backends import refusals, translation
from backends.base import Backend, Fields, Load, ModelCard, Options, Refusal, Upstream
from backends.counted_once import CountedOnce
from backends.errors import BackendError, Broken, Rejected
from backends.openai import OpenAIBackend

_UNABLE: Mapping[str, Any] = {
    **refusals.NOWHERE,
    "bad_words": [],
    "prompt_logprobs": None,
    "structured_outputs": {},
    "stop_token_ids": [],
    "min_tokens": 0,
    "echo": False,
    "include_stop_str_in_output": False,
    "skip_special_tokens": True,
    "spaces_between_special_tokens": True,
    "add_special_tokens": None,
    "dimensions": None,
    "return_documents": False,
    "truncate_prompt_tokens": None,
}
# It answers with log probabilities of another shape than this endpoint's.
_UNABLE_IN_COMPLETIONS = {**_UNABLE, "logprobs": None}
_MISTAKES = re.compile(rb"(?:image|audio|video) input is not supported")


class _Props(msgspec.Struct):
    """What it says of itself; empty until it was asked."""

    total_slots: int | None = None
    modalities: dict[str, bool] = {}
    chat_template_caps: dict[str, bool] = {}


class _Slot(msgspec.Struct):
    is_processing: bool


class _Function(msgspec.Struct):
    name: str


class _Tool(msgspec.Struct):
    """A tool, or the choice of one."""

    function: _Function


class LlamaCppBackend(OpenAIBackend):
    """Without `Options` its own word counts for tools and images."""

    kind = "llamacpp"
    # As every path it answers 503 while the model loads; unlike /health it knows our key.
    probed = ("/v1/models",)
    continues = True

    def __init__(self, name: str, url: str, api_key: str | None = None, options: Options | None = None) -> None:
        super().__init__(name, url, api_key, options or Options())
        self._props = _Props()

    def refusal(self, path: str, fields: Fields) -> Refusal | None:
        options, props = self.options, self._props
        can = props.chat_template_caps.get
        images = props.modalities.get("vision", False) if options.images is None else options.images
        calls_tools = can("supports_tools", False) if options.tools is None else options.tools
        return (
            refusals.unable(fields, _UNABLE_IN_COMPLETIONS if path == "/v1/completions" else _UNABLE)
            or refusals.too_many_answers(fields)
            or self._too_many_choices(fields)
            or refusals.unreadable_content(fields, images=images)
            or (None if calls_tools else refusals.tools(fields))
            or (None if can("supports_reasoning_effort") else refusals.unable(fields, {"reasoning_effort": None}))
            or _unknown_choice(fields)
            or _continued_unasked(fields)
        )

    async def open(self, path: str, body: bytes, headers: Mapping[str, str]) -> Upstream:
        fields = translation.split(body)
        try:
            upstream = await super().open(path, _translated(fields), headers)
        except Rejected as error:
            if error.status == 500 and _MISTAKES.search(error.body):
                raise Rejected(400, error.body) from error
            raise
        if translation.generates(path) and refusals.answers(fields) > 1:
            return CountedOnce(upstream, path, msgspec.json.decode(fields.get("n", b"1")))
        return upstream

    async def models(self) -> list[ModelCard]:
        cards = await super().models()
        with suppress(BackendError, msgspec.DecodeError):  # one that does not tell
            self._props = msgspec.json.decode(await self._get("/props"), type=_Props)
        return cards

    async def load(self) -> Load:
        told = await super().load()
        running = await self._busy_slots() if told.running is None else told.running
        return Load(running, told.waiting, slots=self._props.total_slots)

    async def _busy_slots(self) -> int | None:
        """For a server that was started without metrics."""
        try:
            return sum(slot.is_processing for slot in msgspec.json.decode(await self._get("/slots"), type=list[_Slot]))
        except Rejected:
            return None  # without these too
        except msgspec.DecodeError as error:
            raise Broken("the engine's slots cannot be read") from error

    def _too_many_choices(self, fields: Fields) -> Refusal | None:
        slots = self._props.total_slots
        if slots is None or "n" not in fields:
            return None
        return refusals.too_many_answers({"n": fields["n"]}, slots)


def _translated(fields: dict[str, Any]) -> bytes:
    """Two things in its own words: what others call repetition_penalty, and the one tool that must be called."""
    fields = dict(fields)
    if "repetition_penalty" in fields:
        fields["repeat_penalty"] = fields.pop("repetition_penalty")
    if tool := _chosen(fields):
        fields |= {"tools": [tool], "tool_choice": "required"}
    return msgspec.json.encode(fields)


def _chosen(fields: Fields) -> msgspec.Raw | None:
    """The one tool that `tool_choice` names, if it names one."""
    try:
        name = msgspec.json.decode(fields["tool_choice"], type=_Tool).function.name
        tools = msgspec.json.decode(fields["tools"], type=list[msgspec.Raw])
    except (KeyError, msgspec.ValidationError):
        return None
    return next((tool for tool in tools if msgspec.json.decode(tool, type=_Tool).function.name == name), None)


def _unknown_choice(fields: Fields) -> Refusal | None:
    """It takes a choice that it does not understand for none."""
    if not bytes(fields.get("tool_choice", b"")).startswith(b"{") or _chosen(fields):
        return None
    return Refusal("'tool_choice' has to be auto, none or required, or to name one of the tools.", "tool_choice")


def _continued_unasked(fields: Fields) -> Refusal | None:
    """It goes on with an answer that ends the conversation, where others would begin a new one."""
    if refusals.says(fields, "continue_final_message", b"true") or not refusals.ends_with_an_answer(fields):
        return None
    return Refusal(
        "This model's engine would go on with the last message instead of answering it. "
        "End with a message of the user, or ask for just that: continue_final_message true.",
        "messages",
        "unsupported_content",
    )


def create(name: str, url: str, api_key: str | None, options: Options) -> Backend:
    return LlamaCppBackend(name, url, api_key, options)
