"""How the answers to a request are read: what shows in them, and what its prompt has begun. Knows no sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from backends.wire.requests import text_of
from backends.wire.schema import ChatRequest, CompletionRequest
from native_engine.request import SamplingParams, Sequence
from native_engine.server.echoes import echo_of
from native_engine.server.service import Service
from native_engine.server.tools import may_call
from native_engine.text.answer_reader import AnswerReader
from native_engine.text.answer_style import AnswerStyle, end_of_prompt, spelling
from native_engine.text.choice import Choice
from native_engine.text.thoughts import Opening, ThoughtReader

MAX_CALLS = 128


def choices_of(
    service: Service, request: ChatRequest | CompletionRequest, sequences: Iterable[Sequence], opening: Opening
) -> list[Choice]:
    """One for each answer. A raw prompt's answer is text alone."""
    show: Callable[[int], bytes] = service.tokenizer.id_to_bytes
    style = None
    if isinstance(request, ChatRequest):
        style = shown_style(service, request)
        show = spelling(service.tokenizer, style)
    return [
        Choice(
            index,
            each.request_id,
            each.params,
            show,
            _reader(style, request, each.params, opening),
            echo_of(service.tokenizer, request, each) if isinstance(request, CompletionRequest) else None,
        )
        for index, each in enumerate(sequences)
    ]


def opening_of(service: Service, request: ChatRequest | CompletionRequest, prompt: list[int]) -> Opening:
    """Whether the answer begins in a thought. A message that goes on may have broken off in one."""
    thoughts = service.style.thoughts
    if thoughts is None or not isinstance(request, ChatRequest):
        return "none"
    if request.continue_final_message:
        said = text_of(request.messages[-1])
        return "begun" if said.rfind(thoughts.start) > said.rfind(thoughts.end) else "none"
    return service.style.opening(end_of_prompt(service.tokenizer, prompt))


def shown_style(service: Service, request: ChatRequest) -> AnswerStyle:
    """Calls are text to whoever brought no tools."""
    style = service.style
    if may_call(request) or style.calls is None:
        return style
    reader = style.calls.plain_reader
    return style._replace(calls=None if reader is None else replace(style.calls, reader=reader))


def _reader(
    style: AnswerStyle | None, request: ChatRequest | CompletionRequest, params: SamplingParams, opening: Opening
) -> AnswerReader | None:
    if style is None or (style.thoughts is None and style.calls is None):
        return None
    return AnswerReader(
        params.stop,
        ThoughtReader(style.thoughts, opening) if style.thoughts else None,
        style.calls.reader() if style.calls else None,
        _most_calls(request),
    )


def _most_calls(request: ChatRequest | CompletionRequest) -> int:
    """Calls of tools after which an answer ends."""
    return 1 if isinstance(request, ChatRequest) and request.parallel_tool_calls is False else MAX_CALLS
