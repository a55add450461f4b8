"""Which answers composed grammars let through, for every style of calls."""

from __future__ import annotations

import pytest

from native_engine.loading.tokenizer import Tokenizer, load_tokenizer
from native_engine.structured.compiler import Compiler
from native_engine.structured.composing import (
    ANY_TEXT,
    Callable,
    behind_thought,
    calls,
    calls_among_text,
    either,
    headed,
)
from native_engine.text.thoughts import ThoughtStyle
from native_engine.text.tool_styles import STYLES
from native_engine.text.tool_styles.hermes import HERMES
from native_engine.text.tool_styles.style import ToolStyle
from tests.native_engine.tiny_model import USER_DEFINED, write_gguf

ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [Callable("f", ARGUMENTS), Callable("g", {"type": "object"})]
NUMBER = "start: /[0-9]+/"
THINK = ThoughtStyle(USER_DEFINED, "</think>")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(write_gguf(tmp_path_factory.mktemp("composing") / "tiny.gguf"))


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer) -> Compiler:
    return Compiler(tokenizer)


def fits(compiler: Compiler, grammar: str, answer: str) -> bool:
    """Whether it is a whole answer of this form."""
    tokens = compiler._source.encode(answer, add_special=False)
    matcher = compiler.compile(grammar)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def call(style: ToolStyle, arguments: str = '{"a": 1}') -> str:
    return style.head.replace("{name}", '"f"' if style.quotes_name else "f") + arguments + style.tail


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_calls_alone(compiler: Compiler, style: ToolStyle) -> None:
    one = style.opening + call(style) + style.closing
    two = style.opening + call(style) + style.joint + call(style) + style.closing
    bad = style.opening + call(style, '{"b": 1}') + style.closing
    several, single = (calls(style, TOOLS, compiler.marks, several=several) for several in (True, False))
    assert [fits(compiler, several, answer) for answer in (one, two, bad, "x")] == [True, True, False, False]
    assert [fits(compiler, single, answer) for answer in (one, two, bad, "x")] == [True, False, False, False]


@pytest.mark.parametrize("style", [style for style in STYLES if not style.text_head], ids=lambda style: style.name)
def test_calls_among_text(compiler: Compiler, style: ToolStyle) -> None:
    one = style.opening + call(style) + style.closing
    bad = style.opening + call(style, '{"b": 1}') + style.closing
    grammar = calls_among_text(style, TOOLS, compiler.marks, several=True)
    assert all(fits(compiler, grammar, answer) for answer in ("", "x", one, f"x {one}", '{"x": 1}'))
    assert not fits(compiler, grammar, bad)
    assert fits(compiler, grammar, f"x {bad}") == style.at_start


def test_either_of_two(compiler: Compiler) -> None:
    grammar = either(calls(HERMES, TOOLS, compiler.marks, several=True), headed(NUMBER, "=", compiler.marks))
    assert [fits(compiler, grammar, answer) for answer in (call(HERMES), "=12", "12", "x")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("opening", "answer", "fitting"),
    [
        ("possible", "<think>so, 1</think>\n\n12", True),
        ("possible", "12", True),
        ("possible", "<think>so</think>x", False),
        ("possible", "<think>12", False),
        ("begun", "so</think>12", True),
        ("begun", "12", False),
        ("none", "12", True),
        ("none", "<think>so</think>12", False),
    ],
)
def test_behind_a_thought(compiler: Compiler, opening: str, answer: str, fitting: bool) -> None:
    grammar = behind_thought(NUMBER, THINK, opening, compiler.marks)  # type: ignore[arg-type]
    assert fits(compiler, grammar, answer) is fitting


def test_no_text_holds_a_mark_that_is_a_token(compiler: Compiler) -> None:
    assert fits(compiler, ANY_TEXT, "a <b")
    assert not fits(compiler, ANY_TEXT, f"a {USER_DEFINED} b")
