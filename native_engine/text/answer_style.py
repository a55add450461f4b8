"""How a model marks the parts of its answers, by its chat template and its vocabulary. Knows no request."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple

from native_engine.loading.tokenizer import Tokenizer
from native_engine.text import thoughts, tool_styles
from native_engine.text.thoughts import Opening, ThoughtStyle
from native_engine.text.tool_styles.style import ToolStyle

# As vocabularies write tokens that mark something.
_MARK = re.compile(r"<[|/]?\w+\|?>|\[/?[A-Z_]+\]")
_TAIL = 16  # tokens; a mark at the end of a prompt has fewer


class AnswerStyle(NamedTuple):
    thoughts: ThoughtStyle | None
    calls: ToolStyle | None

    def opening(self, tail: str) -> Opening:
        """What a prompt that ends with `tail` has said of the thought before its answer."""
        tail = tail.rstrip()
        if self.thoughts is None or tail.endswith(self.thoughts.end):
            return "none"
        return "begun" if tail.endswith(self.thoughts.start) else "possible"


def answer_style(template: str, vocabulary: Collection[str]) -> AnswerStyle:
    """`template`: the source of a chat template; `vocabulary`: the texts of added tokens."""
    thinks = next(
        (
            style
            for style in thoughts.STYLES
            if any(all(mark in marks for mark in (style.start, style.end)) for marks in (template, vocabulary))
        ),
        None,
    )
    return AnswerStyle(thinks, tool_styles.taught_style(template))


def marks(style: AnswerStyle) -> frozenset[str]:
    """The texts, often tokens of their own, that mark the parts of an answer."""
    found = set(style.calls.marks) if style.calls else set()
    if style.thoughts:
        found.update(_MARK.findall(style.thoughts.start + style.thoughts.end))
    return frozenset(found)


@lru_cache(4)
def all_mark_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Of every style that there is, those which this vocabulary has as tokens."""
    every = [AnswerStyle(style, None) for style in thoughts.STYLES]
    every += [AnswerStyle(None, style) for style in tool_styles.STYLES]
    texts = frozenset().union(*map(marks, every))
    return {text: number for text, number in tokenizer.added_ids.items() if text in texts}


def spelling(tokenizer: Tokenizer, style: AnswerStyle) -> Callable[[int], bytes]:
    """As `Tokenizer.id_to_bytes`, but the marks of `style` are text, also where they are special tokens."""
    shown = frozenset(tokenizer.added_ids[mark] for mark in marks(style) if mark in tokenizer.added_ids)
    return lambda token: tokenizer.spelling(token) if token in shown else tokenizer.id_to_bytes(token)


def end_of_prompt(tokenizer: Tokenizer, prompt: list[int]) -> str:
    """Its last few tokens, each as it is called."""
    return b"".join(map(tokenizer.spelling, prompt[-_TAIL:])).decode(errors="replace")
