#!/usr/bin/env python3
"""What guessing ahead brings: the same answers with and without, in turn, in one process.

    .venv/bin/python deploy/bench/speculation.py

Three kinds of work on the default model: to repeat a text with small changes, to go on with code, and to chat. The
answers must be the same, token for token; the table says how many tokens a second, and how many guesses came true.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from machine import describe, load_average  # noqa: E402

from native_engine import LLM, SamplingParams  # noqa: E402

TEXT = """The gateway checks who you are, asks whether you may, lets you wait for your turn, chooses an engine and
writes down what it cost. A request that was cut off goes on elsewhere. Nothing that a person wrote is ever logged."""
CODE = """def area_of_square(side):
    return side * side

def area_of_rectangle(width, height):
    return width * height

def area_of_triangle(width, height):
    return width * height / 2

def area_of_circle(radius):
"""
QUESTIONS = (
    "Why is the sky blue?",
    "Write a short poem about the sea.",
    "How do I boil an egg?",
    "What is a prime number?",
)


class Work(NamedTuple):
    name: str
    prompts: list[str]


def works(batch: int) -> list[Work]:
    ask = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    repeat = ask.format(f"Repeat this text, word for word:\n\n{TEXT}")
    chat = [ask.format(QUESTIONS[index % len(QUESTIONS)]) for index in range(batch)]
    return [Work("repeat a text", [repeat] * batch), Work("go on with code", [CODE] * batch), Work("chat", chat)]


class Figures(NamedTuple):
    tokens_per_second: float
    drafted: int
    accepted: int
    texts: list[list[int]]


def measure(llm: LLM, work: Work, tokens: int) -> Figures:
    before = llm.stats()
    began = time.perf_counter()
    done = llm.generate(work.prompts, SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True))
    seconds = time.perf_counter() - began
    total = sum(len(each.token_ids) for each in done)
    after = llm.stats()
    return Figures(
        total / seconds,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
        [each.token_ids for each in done],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--most", type=int, default=6, help="tokens guessed ahead")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    settings = {"max_model_len": 1024, "data_dir": ROOT / ".cache"}
    plain = LLM(given.model, **settings)
    guessing = LLM(given.model, num_speculative_tokens=given.most, **settings)
    table = Table("work", "requests at once", "tokens/s without", "with", "ratio", "guesses that came true")
    for batch in (1, 4, 16):
        for work in works(batch):
            runs = [
                (measure(plain, work, given.tokens), measure(guessing, work, given.tokens))
                for _ in range(given.repeats)
            ]
            if any(one.texts != other.texts for one, other in runs):
                raise SystemExit(f"{work.name}: guessing changed an answer")
            without, ahead = (statistics.median(pair[side].tokens_per_second for pair in runs) for side in (0, 1))
            ratio = statistics.median(other.tokens_per_second / one.tokens_per_second for one, other in runs)
            drafted, accepted = (sum(getattr(other, name) for _, other in runs) for name in ("drafted", "accepted"))
            true = f"{accepted / drafted:.0%} of {drafted}" if drafted else "none made"
            table.add_row(work.name, str(batch), f"{without:.1f}", f"{ahead:.1f}", f"{ratio:.2f}", true)
    console = Console(soft_wrap=True)
    console.print(f"{describe()}; load {load_average()}")
    console.print(table)


if __name__ == "__main__":
    main()
