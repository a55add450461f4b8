"""Prompts of about a wanted number of tokens, without a tokenizer: the server's own counts set the scale."""

from __future__ import annotations

import random
from typing import NamedTuple

# Common words, one token each in most vocabularies.
_WORDS = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour
game line end member law car city community name president team minute idea kid body information back parent face other
level office door health person art war history party result change morning reason research girl guy moment air teacher
force education foot boy age policy music market sense nation plan college interest death experience effect use class
control field development role effort rate heart drug show leader light voice wife police mind price report decision son
view relationship town road arm difference value building action season society tax director position player record
paper space ground form event official matter center couple site project activity star table need court oil situation
cost industry figure street image phone data picture practice piece land product doctor wall patient worker news test
movie north love step source return reader
"""
WORDS = _WORDS.split()


class Scale(NamedTuple):
    """tokens = fixed + per_word x words: the chat template costs the fixed part."""

    fixed: float = 0.0
    per_word: float = 1.0

    def words_for(self, tokens: float) -> int:
        return max(1, round((tokens - self.fixed) / self.per_word))


def fitted(words_a: int, tokens_a: int, words_b: int, tokens_b: int) -> Scale:
    """The line through two measured prompts."""
    per_word = (tokens_b - tokens_a) / (words_b - words_a)
    return Scale(tokens_a - per_word * words_a, per_word) if per_word > 0 else Scale()


def words(count: int, seed: int, name: str | int) -> list[str]:
    """The same for the same seed and name."""
    return random.Random(f"{seed}/{name}").choices(WORDS, k=count)


def prompt(length: int, shared: int, seed: int, index: int) -> str:
    """Of `length` words, `shared` of them as in every other; `index` tells the prompts of a run apart after those."""
    return " ".join(words(shared, seed, "shared") + words(max(1, length - shared), seed, index))
