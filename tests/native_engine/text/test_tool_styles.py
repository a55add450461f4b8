"""Outputs as models of each style write them, and what is read of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_engine.text.tool_calls import Read
from native_engine.text.tool_styles import STYLES, taught_style
from native_engine.text.tool_styles.harmony import HARMONY
from tests.native_engine.text.test_tool_calls import joined

Calls = list[tuple[str, str]]
BY_NAME = {style.name: style for style in STYLES}
# (style, output, text, calls)
OUTPUTS: list[tuple[str, str, str, Calls]] = [
    (
        "hermes",
        "I'll check both.\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>',
        "I'll check both.",
        [("get_weather", '{"city": "Paris", "unit": "celsius"}'), ("get_time", "{}")],
    ),
    (
        "llama",
        '{"name": "get_weather", "parameters": {"city": "São Paulo; {x}", "days": "3"}}',
        "",
        [("get_weather", '{"city": "São Paulo; {x}", "days": "3"}')],
    ),
    (
        "llama",
        '<|python_tag|>{"name": "a", "parameters": {}}; {"name": "b", "parameters": {"q": null}}',
        "",
        [("a", "{}"), ("b", '{"q": null}')],
    ),
    ("llama", '{"type": "function", "name": "f", "parameters": {"x": 1}}', "", [("f", '{"x": 1}')]),
    ("llama", '{"name": "f", "arguments": {"x": 1}}', "", [("f", '{"x": 1}')]),
    ("llama", '{"answer": {"name": "f", "parameters": {}}}\n', '{"answer": {"name": "f", "parameters": {}}}\n', []),
    ("llama", '{"name": "Bob", "age": 3}', '{"name": "Bob", "age": 3}', []),
    ("llama", 'Call {"name": "f", "parameters": {}}', 'Call {"name": "f", "parameters": {}}', []),
    ("llama", '<|python_tag|>brave_search.call(query="x")', '<|python_tag|>brave_search.call(query="x")', []),
    ("llama", '{"name": "f", "parameters": {}} and so on', " and so on", [("f", "{}")]),
    ("llama", "{ no", "{ no", []),
    (
        "mistral-list",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "VvvODy9mT"},'
        ' {"name": "f", "arguments": {"l": [1, "]"]}}]',
        "",
        [("get_weather", '{"city": "Paris"}'), ("f", '{"l": [1, "]"]}')],
    ),
    ("mistral-list", '[TOOL_CALLS] [{"arguments": {"x": 1}, "name": "f"}]\n', "", [("f", '{"x": 1}')]),
    ("mistral-list", "See [TOOL_CALLS] there", "See [TOOL_CALLS] there", []),
    ("mistral-list", "[TOOL_CALLS]  [1, 2]", "[TOOL_CALLS]  [1, 2]", []),
    (
        "mistral",
        'On it. [TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]f.g-h[ARGS]{}',
        "On it.",
        [("get_weather", '{"city": "Paris"}'), ("f.g-h", "{}")],
    ),
    ("mistral", '[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{"x": {}}', "", [("f", '{"x": {}}')]),
    ("mistral", '[TOOL_CALLS]f{"x": 1}', "", [("f", '{"x": 1}')]),
    ("mistral", "[TOOL_CALLS]not a call", "[TOOL_CALLS]not a call", []),
    (
        "harmony",
        "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}',
        "Let me look.",
        [("get_weather", '{"city": "Paris"}')],
    ),
    (
        "harmony",
        '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"x": "<|en"}\n<|end|>'
        "<|start|>assistant<|channel|>final<|message|>Done, <b>.<|end|>",
        "Done, <b>.",
        [("f", '{"x": "<|en"}')],
    ),
    ("harmony", "goes on, <|", "goes on, <|", []),
    ("harmony", "<|channel|>fin", "", []),
]


def read(style: str, *pieces: str) -> tuple[str, Calls]:
    reader = BY_NAME[style].reader()
    parts = [reader.push(piece) for piece in pieces]
    return joined([*parts, Read(reader.flush(), [])])


@pytest.mark.parametrize(("style", "output", "text", "calls"), OUTPUTS)
def test_what_models_write_is_read(style: str, output: str, text: str, calls: Calls) -> None:
    assert read(style, output) == (text, calls)
    assert read(style, *output) == (text, calls)


@given(
    case=st.sampled_from(OUTPUTS),
    others=st.lists(st.sampled_from([*'{}[];"', "[TOOL_CALLS]", "<tool_call>", "<|end|>", "x", "\n "]), max_size=4),
    data=st.data(),
)
def test_the_outcome_does_not_depend_on_how_the_output_was_cut(
    case: tuple[str, str, str, Calls], others: list[str], data: st.DataObject
) -> None:
    style, output, *_ = case
    for other in others:
        place = data.draw(st.integers(0, len(output)))
        output = output[:place] + other + output[place:]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=12)))
    pieces = [output[a:b] for a, b in zip([0, *cuts], [*cuts, len(output)], strict=True)]
    assert read(style, *pieces) == read(style, output) == read(style, *output)


def test_without_tools_a_message_to_one_is_text() -> None:
    reader = HARMONY.plain_reader and HARMONY.plain_reader()
    assert reader
    assert reader.push("<|channel|>commentary to=functions.f <|message|>{}<|end|>") == ("{}", [])


NAME_FIRST = [each for each in OUTPUTS if each[3] and '{"type"' not in each[1] and '{"arguments"' not in each[1]]


@pytest.mark.parametrize(("style", "output", "text", "calls"), NAME_FIRST)
def test_a_call_that_was_cut_off_is_no_text(style: str, output: str, text: str, calls: Calls) -> None:
    """Wherever it broke off behind the name, its markup shows nowhere."""
    begun = output.rindex("{")
    for size in range(begun + 1, len(output)):
        shown, found = read(style, *output[:size])
        assert "{" not in shown
        assert [name for name, _ in found] == [name for name, _ in calls][: len(found)]


@pytest.mark.parametrize(
    ("template", "style"),
    [
        (r"<tool_call>\n{\"name\": ", "hermes"),
        ('<tool_call>\n{"name": ', "hermes"),
        ("<tool_call>{function-name}\n<arg_key>", None),
        ("<|start|>assistant<|channel|>analysis<|message|>", "harmony"),
        ("[TOOL_CALLS] {{ x }}", "mistral-list"),
        ("[TOOL_CALLS]{{ name }}[ARGS]", "mistral"),
        ('Respond in the format {"name": function name, "parameters": dictionary', "llama"),
        ("<|python_tag|>", "llama"),
        ("<tool_call>\n<function=", None),
        ("{{ messages }}", None),
    ],
)
def test_a_template_tells_the_style_that_it_teaches(template: str, style: str | None) -> None:
    found = taught_style(template)
    assert (found.name if found else None) == style
