from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.thoughts import STYLES, Opening, Split, ThoughtReader, ThoughtStyle

THINK = ThoughtStyle("<think>", "</think>")
AGAIN = ThoughtStyle("<a>", "</a>", again=True)


def read(*pieces: str, opening: Opening = "possible", style: ThoughtStyle = THINK) -> Split:
    reader = ThoughtReader(style, opening)
    parts = [*(reader.push(piece) for piece in pieces), reader.flush()]
    return Split("".join(part.thought for part in parts), "".join(part.rest for part in parts))


@pytest.mark.parametrize("style", STYLES)
def test_a_thought_is_told_apart_from_the_answer(style: ThoughtStyle) -> None:
    assert read(f"{style.start}\nhm,\n\nyes\n{style.end}\n\n It is so.\n", style=style) == ("hm,\n\nyes", "It is so.\n")


@pytest.mark.parametrize("text", ["\nhm\n</think>\n\nyes", "<think>\nhm</think>yes", "hm </think>yes"])
def test_a_thought_that_the_prompt_began_needs_no_mark_but_may_have_it(text: str) -> None:
    assert read(*text, opening="begun") == ("hm", "yes")


@pytest.mark.parametrize("text", ["so <think>hm</think> yes", "</think>", "<thin", "\n", "<thinking>x"])
def test_what_does_not_begin_with_a_thought_has_none(text: str) -> None:
    assert read(*text) == ("", text)


def test_where_none_can_be_all_is_answer() -> None:
    assert read("<think>hm</think>yes", opening="none") == ("", "<think>hm</think>yes")


def test_only_the_first_is_a_thought_unless_the_style_has_more() -> None:
    assert read("<think>1</think>2<think>3</think>") == ("1", "2<think>3</think>")
    assert read(*"<a>1</a>2<a>3</a>4<a", style=AGAIN) == ("13", "24<a")


def test_a_thought_without_an_end_stays_one() -> None:
    assert read("<think>\nhm, </thi") == ("hm, </thi", "")
    assert read("hm\n", opening="begun") == ("hm", "")
    assert read(opening="begun") == ("", "")


def test_an_empty_thought_is_none() -> None:
    assert read("<think>\n\n</think>\n\nyes") == ("", "yes")


def test_a_thought_comes_as_it_is_thought() -> None:
    reader = ThoughtReader(THINK, "possible")
    assert reader.push("<think>\n") == ("", "")
    assert reader.thinking
    assert [reader.push(piece) for piece in ("hm", " so\n", "</", "x", "</think>")] == [
        ("hm", ""),
        (" so", ""),
        ("", ""),
        ("\n</x", ""),
        ("", ""),
    ]
    assert not reader.thinking


@given(
    text=st.text(alphabet="<think>/a \n", max_size=40) | st.text(max_size=10),
    marks=st.lists(st.sampled_from(["<think>", "</think>", "<a>", "</a>", "\n"]), max_size=4),
    opening=st.sampled_from(["possible", "begun", "none"]),
    style=st.sampled_from([THINK, AGAIN]),
    data=st.data(),
)
def test_the_outcome_does_not_depend_on_how_the_text_was_cut(
    text: str, marks: list[str], opening: Opening, style: ThoughtStyle, data: st.DataObject
) -> None:
    answer = text
    for mark in marks:
        place = data.draw(st.integers(0, len(answer)))
        answer = answer[:place] + mark + answer[place:]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    pieces = [answer[a:b] for a, b in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    whole = read(answer, opening=opening, style=style)
    assert read(*pieces, opening=opening, style=style) == whole == read(*answer, opening=opening, style=style)
