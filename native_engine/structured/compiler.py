"""Grammars for one tokenizer. Knows no request: it is given a grammar's text, and names its fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from native_engine.loading.tokenizer import Tokenizer
from native_engine.structured.constraint import GrammarConstraint
from native_engine.text.answer_style import all_mark_ids

MAX_CHARACTERS = 256 * 1024  # as text; what is longer takes a second and more
MAX_KEPT = 64  # compiled grammars
_MAX_FAULT = 400  # characters; some quote a whole automaton
_MASK_THREADS = 2


class GrammarFault(ValueError):
    """The grammar cannot be used; the text says why, in the words of its author's language."""


class Compiler:
    """`compile` takes milliseconds, the first one about a second more: call it where that holds nobody up.

    The grammars used last are kept compiled, each with its first mask made.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._source = tokenizer
        self.marks = all_mark_ids(tokenizer)
        self._compiled = lru_cache(MAX_KEPT)(self._compile)
        self._masks = ThreadPoolExecutor(_MASK_THREADS, "grammar")  # no thread is made before the first grammar

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        return LLTokenizer(
            TokenizerWrapper(_Vocabulary(self._source, self.marks.values())),
            eos_token=sorted(self._source.eos_token_ids),
        )

    def compile(self, grammar: str, begun: str = "") -> LLMatcher:
        """Raises GrammarFault. `begun`: the part of the answer that is there already."""
        if len(grammar) > MAX_CHARACTERS:
            raise GrammarFault(
                f"it is {len(grammar)} characters long as a grammar, and {MAX_CHARACTERS} at most can be"
            )
        matcher = self._compiled(grammar).deep_copy()
        if begun and not matcher.consume_tokens(self._source.encode(begun, add_special=False)):
            raise GrammarFault("the last message does not begin an answer of this form")
        return matcher

    def _compile(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            told = " ".join(matcher.get_error().split())
            raise GrammarFault(told if len(told) <= _MAX_FAULT else told[:_MAX_FAULT] + " ...")
        mask = matcher.compute_bitmask()
        if matcher.is_error() or not any(mask):
            raise GrammarFault(f"nothing can begin an answer of this form ({matcher.stop_reason()})")
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
