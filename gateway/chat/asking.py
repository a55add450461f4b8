"""From what somebody asks in a conversation to an engine's request, and the messages that are kept. Pure."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.chat.records import NO_PARAMETERS, Conversation, Message, Parameters, new_message_id
from gateway.chat.tree import branch, prompt, title_of
from gateway.errors import BadRequest, Conflict, NotFound

# What an engine is told where it is to go on with its last message.
_GOING_ON = {"continue_final_message": True, "add_generation_prompt": False}


class Question(NamedTuple):
    """`content` is said below `parent`; without, `parent` is answered again. `going_on`: an answer to go on with."""

    model: str
    parent: str | None = None
    content: str | None = None
    parameters: Parameters = NO_PARAMETERS
    going_on: str | None = None


class Asked(NamedTuple):
    body: bytes  # a chat request
    answer: Message  # as it begins
    question: Message | None  # where it is new
    title: str | None  # where the conversation has none yet


def ask(conversation: Conversation, question: Question) -> Asked:
    """Raises BadRequest, NotFound and Conflict."""
    if question.going_on is not None:
        return _go_on(conversation, question, question.going_on)
    if question.content is None:
        return _again(conversation, question)
    parent = None if question.parent is None else _found(conversation, question.parent, "parent")
    if parent is not None and parent.role != "assistant":
        raise BadRequest("A question follows an answer: name an answer as its parent, or null.", param="parent")
    _check_settled(parent)
    said = Message(
        id=new_message_id(), parent=question.parent, role="user", content=question.content, created=int(time.time())
    )
    before = branch(conversation.messages, question.parent)
    title = None if conversation.title else title_of(question.content)
    return Asked(_body(conversation, question, [*before, said]), _answer(question, said.id), said, title)


def whole(messages: list[dict[str, str]], question: Question, *, goes_on: bool) -> Asked:
    """Of a conversation that is kept elsewhere: its messages as the official API takes them.

    `goes_on`: with the last of them, an answer that was cut. Raises BadRequest where it is none.
    """
    answer, last = _answer(question, None), messages[-1]
    if not goes_on:
        return Asked(_request(question, messages, question.parameters), answer, None, None)
    if last["role"] != "assistant" or not last["content"]:
        raise BadRequest("Only an answer that has begun can go on: give it as the last message.", param="continue")
    body = _request(question, messages, question.parameters, _GOING_ON)
    return Asked(body, replace(answer, content=last["content"]), None, None)


def _again(conversation: Conversation, question: Question) -> Asked:
    if question.parent is None:
        raise BadRequest("Say what is asked (content), or which question is to be answered again (parent).")
    parent = _found(conversation, question.parent, "parent")
    if parent.role != "user":
        raise BadRequest("Only a question is answered again: name one as the parent.", param="parent")
    before = branch(conversation.messages, parent.id)
    return Asked(_body(conversation, question, before), _answer(question, parent.id), None, None)


def _go_on(conversation: Conversation, question: Question, answer_id: str) -> Asked:
    if question.content is not None:
        raise BadRequest("An answer that is to go on takes no content.", param="content")
    cut = _found(conversation, answer_id, "continue")
    if cut.role != "assistant" or not cut.content:
        raise BadRequest("Only an answer that has begun can go on.", param="continue")
    _check_settled(cut)
    before = branch(conversation.messages, cut.id)
    body = _body(conversation, question, before, _GOING_ON)
    begun = replace(cut, state="running", model=question.model, finish_reason=None, error=None, usage=None)
    return Asked(body, begun, None, None)


def _body(
    conversation: Conversation, question: Question, messages: list[Message], more: dict[str, Any] | None = None
) -> bytes:
    parameters = question.parameters.over(conversation.parameters)
    return _request(question, prompt(conversation.system, messages), parameters, more)


def _request(
    question: Question, messages: list[Any], parameters: Parameters, more: dict[str, Any] | None = None
) -> bytes:
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    fields = {"model": question.model, "messages": messages, **streamed, **parameters.given(), **(more or {})}
    return msgspec.json.encode(fields)


def _answer(question: Question, parent: str | None) -> Message:
    return Message(
        id=new_message_id(),
        parent=parent,
        role="assistant",
        content="",
        model=question.model,
        created=int(time.time()),
        state="running",
    )


def _found(conversation: Conversation, message_id: str, param: str) -> Message:
    for message in conversation.messages:
        if message.id == message_id:
            return message
    raise NotFound(f"There is no message {message_id[:64]!r} in this conversation.", param=param)


def _check_settled(message: Message | None) -> None:
    if message is not None and message.state == "running":
        raise Conflict("This answer is still being written. Wait for its end, or stop it.", code="still_running")
