"""Grammars for one tokenizer. Knows no request: it is given a grammar's text, and names its fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from native_engine.loading.tokenizer import Tokenizer
from native_engine.structured.constraint import GrammarConstraint
from native_engine.text.answer_style import all_mark_ids

_MASK_THREADS = 2


class GrammarFault(ValueError):
    """The grammar cannot be used; the text says why, in the words of its author's language."""


class Compiler:
    """`compile` takes milliseconds, the first one about a second more: call it where that holds nobody up."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._source = tokenizer
        self.marks = all_mark_ids(tokenizer)
        self._masks = ThreadPoolExecutor(_MASK_THREADS, "grammar")  # no thread is made before the first grammar

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        return LLTokenizer(
            TokenizerWrapper(_Vocabulary(self._source, self.marks.values())),
            eos_token=sorted(self._source.eos_token_ids),
        )

    def compile(self, grammar: str, begun: str = "") -> LLMatcher:
        """Raises GrammarFault. `begun`: the part of the answer that is there already."""
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise GrammarFault(" ".join(matcher.get_error().split()))
        if begun and not matcher.consume_tokens(self._source.encode(begun, add_special=False)):
            raise GrammarFault("the last message does not begin an answer of this form")
        return matcher

    def constraints(self, matcher: LLMatcher, count: int) -> Sequence[GrammarConstraint]:
        """One for each of `count` answers."""
        return [GrammarConstraint(matcher.deep_copy(), self._masks) for _ in range(count)]


class _Vocabulary:
    """A tokenizer in the form that the library reads: bytes that the engine's text is made of, special ones apart.

    `marks` are apart too: a grammar's text matches none, and names those that it wants.
    """

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, marks: Iterable[int]) -> None:
        special = tokenizer.special_ids | frozenset(marks)
        numbers = range(tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self.eos_token_id = min(tokenizer.eos_token_ids)
        self.special_token_ids = sorted(special)
        self.tokens = [
            b"\xff" + tokenizer.spelling(number) if number in special else tokenizer.id_to_bytes(number)
            for number in numbers
        ]

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode(text.decode(), add_special=False)
