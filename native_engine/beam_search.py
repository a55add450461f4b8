"""Beam search on an engine: the likeliest whole answers instead of the likeliest next token. Knows no text.

Each step asks the engine for one more token of every live beam, with the alternatives; what the beams of a prompt have
in common is found in the prefix cache. The rules are those of transformers' `generate(num_beams=...)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as ListLike
from dataclasses import dataclass, field
from typing import NamedTuple

from native_engine.engine import Engine
from native_engine.request import MAX_LOGPROBS, Logprobs, SamplingParams, Sequence

MAX_BEAM_WIDTH = MAX_LOGPROBS // 2


@dataclass(frozen=True, slots=True)
class BeamSearchParams:
    """`length_penalty`: an answer's score is its log probability divided by its length to this power; above 0 longer
    answers gain, below 0 they lose."""

    beam_width: int
    max_tokens: int
    length_penalty: float = 1.0
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.beam_width <= MAX_BEAM_WIDTH:
            raise ValueError(f"beam_width must be 1 to {MAX_BEAM_WIDTH}, got {self.beam_width}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty must be finite, got {self.length_penalty}")


class Beam(NamedTuple):
    """`score` is the log probability under the length penalty, and what beams are ranked by at the end."""

    token_ids: tuple[int, ...]
    logprob: float
    score: float


def beam_search(
    engine: Engine, prompts: ListLike[list[int]], params: BeamSearchParams, eos_token_ids: frozenset[int]
) -> list[list[Beam]]:
    """The `beam_width` best answers to each prompt, the best first. The engine is idle, before and after."""
    limit = engine.scheduler.max_total_tokens
    for index, prompt in enumerate(prompts):
        if not prompt or len(prompt) + params.max_tokens > limit:
            asked = f"{len(prompt)} tokens and {params.max_tokens} to come"
            raise ValueError(f"prompt {index}: {asked}; expected 1 to {limit} in all")
    ends: frozenset[int] = frozenset() if params.ignore_eos else eos_token_ids
    searches = [_Search(prompt, params, ends) for prompt in prompts]
    try:
        while live := [search for search in searches if not search.done]:
            told = iter(_next_tokens(engine, [prompt for search in live for prompt in search.texts()], params))
            for search in live:
                search.advance([next(told) for _ in search.live])
    finally:
        engine.abort_all()
    return [search.best() for search in searches]


def _next_tokens(engine: Engine, texts: list[list[int]], params: BeamSearchParams) -> list[Logprobs]:
    """What the model says of the token after each text."""
    asked = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True, logprobs=2 * params.beam_width)
    sequences = [Sequence(str(index), text, asked) for index, text in enumerate(texts)]
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    if any(not sequence.logprobs for sequence in sequences):
        raise RuntimeError("the engine failed on a beam; its log says why")
    return [sequence.logprobs[0] for sequence in sequences]


@dataclass(slots=True)
class _Search:
    """The beams of one prompt, all live ones of the same length."""

    prompt: list[int]
    params: BeamSearchParams
    ends: frozenset[int]
    live: list[Beam] = field(default_factory=lambda: [Beam((), 0.0, 0.0)])
    finished: list[Beam] = field(default_factory=list)
    done: bool = False

    def texts(self) -> list[list[int]]:
        return [[*self.prompt, *beam.token_ids] for beam in self.live]

    def advance(self, told: list[Logprobs]) -> None:
        """Twice the width are looked at, so that enough go on however many end; one ends only among the best."""
        width, length = self.params.beam_width, len(self.live[0].token_ids) + 1
        found = [
            Beam((*beam.token_ids, token), beam.logprob + logprob, self._score(beam.logprob + logprob, length))
            for beam, logprobs in zip(self.live, told, strict=True)
            for token, logprob in logprobs.top
        ]
        found = sorted(found, key=lambda beam: beam.logprob, reverse=True)[: 2 * width]
        full = length == self.params.max_tokens
        self.finished += [beam for beam in found[:width] if full or beam.token_ids[-1] in self.ends]
        self.finished = self.best()
        self.live = [beam for beam in found if beam.token_ids[-1] not in self.ends][:width]
        self.done = full or not self.live or self._cannot_improve()

    def best(self) -> list[Beam]:
        return sorted(self.finished, key=lambda beam: beam.score, reverse=True)[: self.params.beam_width]

    def _cannot_improve(self) -> bool:
        """transformers' guess: no live beam, at its present length, beats the worst that has finished."""
        return len(self.finished) == self.params.beam_width and self.live[0].score <= self.finished[-1].score

    def _score(self, logprob: float, length: int) -> float:
        return logprob / float(length**self.params.length_penalty)
