"""Words that an answer must not have, as the tokens that would write them. Knows no sampling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from native_engine.request import SamplingParams

if TYPE_CHECKING:
    from native_engine.loading.tokenizer import Tokenizer


def spellings(words: Iterable[str], tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    """Each word as it stands, and as it is spelled behind a space. What a model writes in other pieces is not found."""
    return tuple(dict.fromkeys(each for word in words for each in _both(word, tokenizer) if each))


def spelled(params: SamplingParams, tokenizer: Tokenizer) -> SamplingParams:
    """With the spellings of its bad words. Raises ValueError for ids of tokens that the model does not have."""
    for field, ids in (("logit_bias", params.logit_bias or ()), ("stop_token_ids", params.stop_token_ids)):
        if max(ids, default=0) >= tokenizer.vocab_size:
            raise ValueError(
                f"{field} holds the token id {max(ids)}, but this model knows {tokenizer.vocab_size} tokens"
            )
    if not params.bad_words:
        return params
    return replace(params, bad_words_ids=params.bad_words_ids + spellings(params.bad_words, tokenizer))


def _both(word: str, tokenizer: Tokenizer) -> Iterable[tuple[int, ...]]:
    plain = tuple(tokenizer.encode(word, add_special=False))
    spaced = tuple(tokenizer.encode(" " + word.lstrip(), add_special=False))
    yield plain
    if spaced[-len(plain) :] != plain:  # else the word itself has the same tokens there
        yield spaced
