"""What holds each answer to the form that was asked for, behind its thought; a bad form is refused beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as ListLike

from llguidance import LLMatcher

from backends.wire.errors import InvalidRequest
from backends.wire.requests import text_of
from backends.wire.schema import ChatRequest, CompletionRequest
from native_engine.request import Constraint
from native_engine.server.forms import form_of
from native_engine.server.service import Service
from native_engine.server.tools import called_form, may_call
from native_engine.structured.compiler import GrammarFault
from native_engine.structured.composing import behind_thought, headed
from native_engine.structured.grammars import Form
from native_engine.text.thoughts import Opening


async def constraints(
    service: Service, request: ChatRequest | CompletionRequest, count: int, opening: Opening
) -> ListLike[Constraint | None]:
    """One for each of `count` answers; None where any text will do."""
    form = form_of(request)
    if isinstance(request, ChatRequest):
        form = _with_parts(service, request, form, opening)
    if form is None:
        return [None] * count
    return service.grammars.constraints(await _compiled(service, form, _begun(service, request)), count)


def _with_parts(service: Service, request: ChatRequest, form: Form | None, opening: Opening) -> Form | None:
    style, marks = service.style, service.grammars.marks
    head = style.calls.text_head if style.calls is not None and not request.continue_final_message else ""
    if form is not None:
        form = form._replace(grammar=headed(form.grammar, head, marks))
    asked = form
    if style.calls is not None and may_call(request):
        form = called_form(request, style.calls, marks, form, head)
    if form is None or style.thoughts is None:
        return form
    if asked is None and opening == "possible" and style.thoughts.start not in marks:
        return None  # free text, in which a thought that is no token could not be told from a call
    return form._replace(grammar=behind_thought(form.grammar, style.thoughts, opening, marks))


def _begun(service: Service, request: ChatRequest | CompletionRequest) -> str:
    """What a continued message has said already, less its thought."""
    if not isinstance(request, ChatRequest) or not request.continue_final_message:
        return ""
    said, thoughts = text_of(request.messages[-1]).strip(), service.style.thoughts  # as the template's end is cut
    return said.rpartition(thoughts.start)[2].rpartition(thoughts.end)[2].lstrip() if thoughts else said


async def _compiled(service: Service, form: Form, begun: str) -> LLMatcher:
    def work() -> LLMatcher:
        try:
            return service.grammars.compile(form.grammar, begun)
        except GrammarFault as fault:
            raise InvalidRequest(f"'{form.field}' cannot be used: {fault}.", form.field, "invalid_value") from fault

    return await asyncio.get_running_loop().run_in_executor(service.long_texts, work)
