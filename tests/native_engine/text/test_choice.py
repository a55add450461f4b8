"""Several tokens of one step give what they would give one by one."""

from __future__ import annotations

from typing import Any

import pytest

from native_engine.engine import SequenceOutput
from native_engine.request import FinishReason, Logprobs, SamplingParams
from native_engine.text.answer_reader import AnswerReader
from native_engine.text.choice import Choice, Taken
from native_engine.text.thoughts import ThoughtReader, ThoughtStyle
from native_engine.text.tool_styles.hermes import HERMES

LETTERS = 'abcdefghij<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def output(tokens: list[int], reason: FinishReason | None = None) -> SequenceOutput:
    return SequenceOutput("r", tokens, reason, 1, 0, [Logprobs(-float(token), (), 1) for token in tokens])


def choice(parts: bool = False, **params: Any) -> Choice:
    reader = AnswerReader((), ThoughtReader(ThoughtStyle("b", "d"), "possible"), HERMES.reader(), 1) if parts else None
    return Choice(0, "r", SamplingParams(logprobs=0, **params), lambda token: LETTERS[token].encode(), reader)


def taken(answer: Choice, tokens: list[int], sizes: list[int], reason: FinishReason | None) -> tuple[Taken, Any, int]:
    """In steps of those sizes; what came in all, why it ended, and how many tokens it counts."""
    pieces: list[Taken] = []
    for number, size in enumerate(sizes):
        now, tokens = tokens[:size], tokens[size:]
        pieces.append(answer.take(output(now, reason if number == len(sizes) - 1 else None)))
        if answer.finish_reason is not None:
            break
    told = [token for piece in pieces for token in piece.logprobs]
    calls = [call for piece in pieces for call in piece.calls if call.name]
    text, thought = ("".join(getattr(piece, part) for piece in pieces) for part in ("text", "thought"))
    return Taken(text, told, calls, thought), answer.finish_reason, answer.num_tokens


WHOLE = list(range(len(LETTERS)))


@pytest.mark.parametrize("sizes", [[8], [3, 5], [1, 6, 1]])
@pytest.mark.parametrize(
    ("params", "tokens", "reason"),
    [
        ({}, WHOLE[:8], None),
        ({}, WHOLE[:8], FinishReason.STOP),
        ({}, WHOLE[:8], FinishReason.LENGTH),
        ({"stop": ("d",)}, WHOLE[:8], FinishReason.LENGTH),
        ({"stop": ("cdx",)}, WHOLE[:8], FinishReason.LENGTH),
        ({"stop": ("b", "ef"), "min_tokens": 3, "max_tokens": 9}, WHOLE[:8], None),
        ({"parts": True}, [*WHOLE[10:], 9], None),
        ({"parts": True}, [*WHOLE[1:9], *WHOLE[10:], 9], None),
    ],
)
def test_tokens_that_come_together_give_what_they_give_one_by_one(
    params: dict[str, Any], tokens: list[int], reason: FinishReason | None, sizes: list[int]
) -> None:
    sizes = [*sizes[:-1], len(tokens) - sum(sizes[:-1])]
    assert taken(choice(**params), tokens, sizes, reason) == taken(choice(**params), tokens, [1] * len(tokens), reason)


def test_what_follows_a_stop_string_is_neither_shown_nor_counted() -> None:
    answer = choice(stop=("d",))
    shown = answer.take(output(WHOLE[:8], FinishReason.LENGTH))
    assert (shown.text, answer.finish_reason, answer.num_tokens) == ("abc", "stop", 4)
    assert [token.token_id for token in shown.logprobs] == [0, 1, 2]


def test_an_end_without_a_token_ends_the_answer() -> None:
    answer = choice(stop=("ab!",))
    assert answer.take(output([0, 1])).text == ""
    assert answer.take(output([], FinishReason.ABORT)).text == "ab"
    assert answer.finish_reason == "abort"


def test_the_tokens_of_a_thought_are_counted_without_its_marks() -> None:
    answer = choice(parts=True)
    shown = answer.take(output([1, 2, 2, 3, 4], FinishReason.LENGTH))
    assert (shown.thought, shown.text, answer.num_thought_tokens) == ("cc", "e", 2)
    assert choice().num_thought_tokens is None
