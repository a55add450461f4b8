from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.tool_calls import CallPiece, Read
from native_engine.text.tool_styles.hermes import END, HERMES, START

ARGUMENTS = '{"city": "Par}is \\"x\\\\", "days": [1, {"a": []}], "日本": "🍣"}'


def written(name: str = "weather", arguments: str = ARGUMENTS) -> str:
    return f'{START}\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n{END}'


def read(*pieces: str) -> tuple[str, list[tuple[str, str]]]:
    """The text and the calls that come of it."""
    reader = HERMES.reader()
    parts = [reader.push(piece) for piece in pieces]
    return joined([*parts, Read(reader.flush(), [])])


def joined(parts: list[Read]) -> tuple[str, list[tuple[str, str]]]:
    calls: list[tuple[str, str]] = []
    for part in parts:
        for number, name, arguments in part.calls:
            if name is not None:
                assert number == len(calls)
                calls.append((name, ""))
            calls[number] = (calls[number][0], calls[number][1] + arguments)
    return "".join(part.text for part in parts), calls


def test_a_call_has_its_name_and_its_arguments_as_they_were_written() -> None:
    assert read(written()) == ("", [("weather", ARGUMENTS)])


def test_several_calls_behind_text() -> None:
    answer = "Let me see.\n" + written("one") + "\n" + written("two", "{}") + "\n"
    assert read(answer) == ("Let me see.", [("one", ARGUMENTS), ("two", "{}")])


@given(
    text=st.text(alphabet='<tool_cal>/ab \n{}"', max_size=40).filter(lambda text: START not in text),
    names=st.lists(st.text(min_size=1, max_size=5), max_size=3),
    data=st.data(),
)
def test_the_outcome_does_not_depend_on_how_the_text_was_cut(text: str, names: list[str], data: st.DataObject) -> None:
    answer = text + "\n".join(written(name) for name in names)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    assert read(*pieces) == read(answer) == read(*answer)


@given(st.text(max_size=60).filter(lambda text: START not in text))
def test_text_without_calls_comes_as_it_is(text: str) -> None:
    assert read(*text) == (text, [])


def test_the_name_comes_before_the_arguments_and_these_as_they_are_written() -> None:
    reader = HERMES.reader()
    assert reader.push('<tool_call>{"name": "f", "arguments": ').calls == []
    assert reader.push('{"a"').calls == [CallPiece(0, "f", ""), CallPiece(0, None, '{"a"')]
    assert reader.push(": 1").calls == [CallPiece(0, None, ": 1")]
    assert reader.complete == 0
    assert reader.push("}}").calls == [CallPiece(0, None, "}")]
    assert (reader.complete, reader.push("</tool_call>"), reader.flush()) == (1, Read("", []), "")


def test_keys_in_another_order_are_read_too() -> None:
    answer = f'{START}{{"arguments": {{"a": 1}}, "name": "f"}}{END}'
    assert read(*answer) == ("", [("f", '{"a": 1}')])


@pytest.mark.parametrize("body", ["not JSON", "[1]", '{"name": 5}', "{}"])
def test_what_only_looks_like_a_call_is_text(body: str) -> None:
    answer = f"a{START}{body}{END}b"
    assert read(*answer) == (answer, [])


def test_a_call_that_was_cut_off_keeps_what_came() -> None:
    assert read('<tool_call>{"name": "f", "arguments": {"a": 1') == ("", [("f", '{"a": 1')])
    assert read('<tool_call>{"na') == ('<tool_call>{"na', [])
    assert read("one <tool_") == ("one <tool_", [])
