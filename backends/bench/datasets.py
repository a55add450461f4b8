"""What is asked: conversations of one turn or several, written from a seed or read from a file. Knows no server."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from backends.bench.config import BenchConfig
from backends.bench.log import read_log
from backends.bench.prompts import Scale, prompt, words

Message = dict[str, Any]  # role and content, as the API has them

# No length is drawn above so many means: the context that a run needs is known before it, for 2 % of the mean.
LONGEST = 8


class Turn(NamedTuple):
    """`messages` is what it adds to the conversation so far."""

    messages: tuple[Message, ...]
    output_tokens: int


class Conversation(NamedTuple):
    """A turn is sent when the one before it was answered. `at`: seconds after the log's first, where a log tells."""

    turns: tuple[Turn, ...]
    at: float | None = None


def conversations(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """Those of a run: `config.num_requests` turns in all, or fewer where a file holds fewer. BenchError: a bad file."""
    return _BY_NAME[config.dataset_name](config, scale)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def _single(text: str, output_tokens: int) -> Conversation:
    return Conversation((Turn((user(text),), output_tokens),))


def _fixed(config: BenchConfig, scale: Scale) -> list[Conversation]:
    return [_single(_prompt(config, scale, index), config.output_tokens) for index in range(config.num_requests)]


def _sharegpt_like(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """Lengths of prompts and answers are lognormal, each around its mean: most are short, a few very long."""
    rng = random.Random(f"{config.seed}/lengths")

    def drawn(mean: int) -> int:
        sigma = config.length_sigma
        length = rng.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)
        return max(1, min(round(length), LONGEST * mean))

    return [
        _single(_prompt(config, scale, index, drawn(config.input_tokens)), drawn(config.output_tokens))
        for index in range(config.num_requests)
    ]


def _rag(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """An instruction, one of its documents, and a question of its own: prompts share the first, or the first two."""
    choice = random.Random(f"{config.seed}/rag")
    lengths = (config.shared_prefix_tokens, config.document_tokens)
    instruction_words, document_words = (max(1, round(length / scale.per_word)) for length in lengths)
    question_words = max(1, scale.words_for(config.input_tokens) - instruction_words - document_words)
    seed = _text_seed(config)
    made = []
    for index in range(config.num_requests):
        instruction, document = choice.randrange(config.num_prefixes), choice.randrange(config.documents_per_prefix)
        text = [
            *words(instruction_words, seed, f"instruction {instruction}"),
            *words(document_words, seed, f"document {instruction} {document}"),
            *words(question_words, seed, index),
        ]
        made.append(_single(" ".join(text), config.output_tokens))
    return made


def _multi_turn(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """Each turn adds a question of the input length; the last conversation is as long as the count leaves it."""
    turns = [Turn((user(_prompt(config, scale, index)),), config.output_tokens) for index in range(config.num_requests)]
    return [
        Conversation(tuple(turns[start : start + config.num_turns])) for start in range(0, len(turns), config.num_turns)
    ]


def _custom(config: BenchConfig, scale: Scale) -> list[Conversation]:
    made = []
    for index, line in enumerate(read_log(config.dataset_path or "")[: config.num_requests]):
        text = line.prompt if line.input_tokens is None else _prompt(config, scale, index, line.input_tokens)
        messages = tuple(line.messages or [user(text or "")])
        turn = Turn(messages, line.max_tokens or line.output_tokens or config.output_tokens)
        made.append(Conversation((turn,), line.at))
    return made


def _prompt(config: BenchConfig, scale: Scale, index: int, tokens: int | None = None) -> str:
    shared = round(config.shared_prefix_tokens / scale.per_word)
    return prompt(scale.words_for(tokens or config.input_tokens), shared, _text_seed(config), index)


def _text_seed(config: BenchConfig) -> int:
    return config.seed if config.text_seed is None else config.text_seed


_BY_NAME: dict[str, Callable[[BenchConfig, Scale], list[Conversation]]] = {
    "random": _fixed,
    "sharegpt-like": _sharegpt_like,
    "rag": _rag,
    "multi-turn": _multi_turn,
    "custom": _custom,
}
