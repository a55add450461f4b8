"""What no engine could do well is told by the field's name, and what asks for nothing is no reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backends import refusals
from backends.base import Fields


def fields(**values: Any) -> Fields:
    body = msgspec.json.encode(values)
    return dict(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))


@pytest.mark.parametrize("name", refusals.NOWHERE)
def test_a_field_that_asks_for_something_is_named(name: str) -> None:
    refusal = refusals.unable(fields(model="m", **{name: "something"}), refusals.NOWHERE)
    assert refusal is not None
    assert refusal.param == name
    assert name in refusal.message


@pytest.mark.parametrize(("name", "nothing"), refusals.NOWHERE.items())
def test_a_field_that_asks_for_nothing_is_let_through(name: str, nothing: object) -> None:
    assert refusals.unable(fields(**{name: nothing}), refusals.NOWHERE) is None
    assert refusals.unable(fields(**{name: None}), refusals.NOWHERE) is None


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ({}, 1),
        ({"n": None}, 1),
        ({"n": 3}, 3),
        ({"prompt": "one, [two]"}, 1),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": ["a", "b"]}, 2),
        ({"prompt": [[1, 2], [3]], "n": 4}, 8),
        ({"messages": ["a", "b"], "n": 2}, 2),
    ],
)
def test_answers_are_choices_times_prompts(asked: dict[str, Any], answers: int) -> None:
    assert refusals.answers(fields(**asked)) == answers


@pytest.mark.parametrize("asked", [{"n": 1000}, {"prompt": ["a"] * 129}, {"prompt": ["a"] * 65, "n": 2}])
def test_a_thousand_answers_to_one_request_are_refused(asked: dict[str, Any]) -> None:
    assert refusals.too_many_answers(fields(**asked)) is not None
    assert refusals.too_many_answers(fields(n=128)) is None
    assert refusals.too_many_answers(fields(prompt=["a"] * 64, n=2)) is None


def test_content_that_is_not_text_is_named_by_its_place() -> None:
    def says(kind: str, **options: bool) -> str | None:
        parts = [{"type": "text", "text": '"type":"image_url"'}, {"type": kind}]
        messages = [{"role": "system", "content": "image_url"}, {"role": "user", "content": parts}]
        refusal = refusals.unreadable_content(fields(messages=messages), images=options["images"])
        return None if refusal is None else refusal.param

    assert says("text", images=False) is None
    assert says("refusal", images=False) is None
    assert says("image_url", images=False) == "messages[1].content[1].type"
    assert says("image_url", images=True) is None
    assert says("input_audio", images=True) == "messages[1].content[1].type"


def test_messages_without_content_are_no_reason() -> None:
    calls = [{"role": "assistant", "content": None, "tool_calls": []}, {"role": "tool"}]
    assert refusals.unreadable_content(fields(messages=calls), images=False) is None
    assert refusals.unreadable_content(fields(prompt="a"), images=False) is None


def test_tools_are_refused_unless_there_are_none_or_none_may_be_called() -> None:
    assert refusals.tools(fields(tools=[{}])) is not None
    assert refusals.tools(fields(tools=[{}], tool_choice="auto")) is not None
    assert refusals.tools(fields(tools=[{}], tool_choice="none")) is None
    assert refusals.tools(fields(tools=[])) is None
    assert refusals.tools(fields(tools=None)) is None


def test_a_conversation_ends_with_an_answer_or_not() -> None:
    spoken = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert refusals.ends_with_an_answer(fields(messages=spoken))
    assert not refusals.ends_with_an_answer(fields(messages=spoken[:1]))
    assert not refusals.ends_with_an_answer(fields(prompt="a"))
