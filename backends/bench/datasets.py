"""What is asked: conversations of one turn or several, written from a seed or read from a file. Knows no server."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from backends.bench.config import BenchConfig
from backends.bench.lengths import ANSWERS, PROMPTS
from backends.bench.log import read_log
from backends.bench.prompts import Scale, prompt, words

Message = dict[str, Any]  # role and content, as the API has them


class Turn(NamedTuple):
    """`messages` is what it adds to the conversation so far."""

    messages: tuple[Message, ...]
    output_tokens: int


class Conversation(NamedTuple):
    """A turn is sent when the one before it was answered. `at`: seconds after the log's first, where a log tells."""

    turns: tuple[Turn, ...]
    at: float | None = None


def conversations(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """Those of a run: `config.num_requests` turns in all, fewer where a log that is replayed holds fewer. BenchError: a
    bad file."""
    return _BY_NAME[config.dataset_name](config, scale)


def usual_lengths(dataset_name: str) -> tuple[int, int]:
    """Tokens of a prompt and of an answer, where nobody says how many."""
    return (round(PROMPTS.mean), round(ANSWERS.mean)) if dataset_name == "sharegpt-like" else (128, 128)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def _single(text: str, output_tokens: int) -> Conversation:
    return Conversation((Turn((user(text),), output_tokens),))


def _fixed(config: BenchConfig, scale: Scale) -> list[Conversation]:
    return [_single(_prompt(config, scale, index), config.output_tokens) for index in range(config.num_requests)]


def _sharegpt_like(config: BenchConfig, scale: Scale) -> list[Conversation]:
    """Lengths of prompts and answers spread as those that people shared, each around its mean."""
    rng = random.Random(f"{config.seed}/lengths")
    lengths = [
        (PROMPTS.drawn(rng, config.input_tokens), ANSWERS.drawn(rng, config.output_tokens))
        for _ in range(config.num_requests)
    ]
    return [_single(_prompt(config, scale, index, asked), answered) for index, (asked, answered) in enumerate(lengths)]


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
    """Where the file is too short, lines of it are drawn again, as vLLM does; not where it is replayed."""
    lines = read_log(config.dataset_path or "")[: config.num_requests]
    missing = 0 if config.replay_speed is not None else config.num_requests - len(lines)
    lines += random.Random(f"{config.seed}/again").choices(lines, k=missing)
    made = []
    for index, line in enumerate(lines):
        text = line.prompt if line.input_tokens is None else _prompt(config, scale, index, line.input_tokens)
        messages = tuple(line.messages or [user(text or "")])
        turn = Turn(messages, line.max_tokens or line.output_tokens or config.output_tokens)
        made.append(Conversation((turn,), line.at))
    return made


def repeated(asked: Sequence[Conversation]) -> int:
    """How many of them say what one before them said: a prefix cache knows them."""
    return len(asked) - len({repr([turn.messages for turn in one.turns]) for one in asked})


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
