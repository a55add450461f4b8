"""All parts of an answer together: a thought, text, calls and a stop string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.answer_reader import AnswerReader
from native_engine.text.thoughts import Opening, ThoughtReader, ThoughtStyle
from native_engine.text.tool_calls import Read
from native_engine.text.tool_styles.hermes import HERMES
from tests.native_engine.text.test_tool_calls import joined, written

THINK = ThoughtStyle("<think>", "</think>")
CALL = written("f", '{"a": "b"}')


def read(
    *pieces: str, stop: str = "STOP", opening: Opening = "possible"
) -> tuple[str, str, list[tuple[str, str]], bool]:
    """Thought, text, calls, and whether a stop string ended it."""
    reader = AnswerReader((stop,), ThoughtReader(THINK, opening), HERMES.reader())
    parts = []
    for piece in pieces:
        parts.append(reader.push(piece))
        if reader.stopped:
            break
    parts.append(reader.flush())
    text, calls = joined([Read(part.text, part.calls) for part in parts])
    return "".join(part.thought for part in parts), text, calls, reader.stopped


def test_each_part_comes_to_its_own() -> None:
    answer = f"<think>\nSTOP? {CALL}\n</think>\n\nSo.\n{CALL}\nSTOP{CALL}"
    assert read(*answer) == (f"STOP? {CALL}", "So.", [("f", '{"a": "b"}')], True)


@pytest.mark.parametrize("stop", ["think", "b", "</tool_call>"])
def test_stop_strings_are_looked_for_in_calls_too(stop: str) -> None:
    thought, _, calls, stopped = read(*f"<think>b</think>{CALL}", stop=stop)
    assert (thought, stopped) == ("b", stop != "think")
    assert calls == [("f", '{"a": "' if stop == "b" else '{"a": "b"}')]


def test_characters_that_a_stop_string_may_take_are_counted() -> None:
    reader = AnswerReader(("STOP",), ThoughtReader(THINK, "possible"))
    reader.push("<think>ST</think>xST")
    assert reader.hidden == 2
    reader.push("x")
    assert reader.hidden == 0


@given(
    marks=st.lists(
        st.sampled_from(["<think>", "</think>", CALL, "STOP", "ST", "<tool_call>", "\n", "x ", "{"]), max_size=8
    ),
    opening=st.sampled_from(["possible", "begun", "none"]),
    data=st.data(),
)
def test_the_outcome_does_not_depend_on_how_the_answer_was_cut(
    marks: list[str], opening: Opening, data: st.DataObject
) -> None:
    answer = "".join(marks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    assert read(*pieces, opening=opening) == read(answer, opening=opening) == read(*answer, opening=opening)
