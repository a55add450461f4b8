"""What any chat needs: a stream with usage, its limits, its repeatability, its characters, several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from backends.check.answers import Answer
from backends.check.engine import QUESTION, Engine
from backends.check.verdicts import Failed, Unsupported

_STOPS = (",", " ", "\n")
_LONG_WORDS = 1000
_AT_ONCE = 4
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


async def stream(engine: Engine) -> str:
    answer = _ended(await engine.chat())
    if answer.role != "assistant":
        raise Failed(f"the role is {answer.role!r}")
    if answer.pieces < 2:
        raise Failed(f"the text came in {answer.pieces} pieces")
    return f"{answer.pieces} pieces, then {answer.finish_reason}"


async def usage(engine: Engine) -> str:
    found = (await engine.chat(max_tokens=16)).usage
    total = found.prompt_tokens + found.completion_tokens
    if found.prompt_tokens < 1 or not 1 <= found.completion_tokens <= 16 or found.total_tokens not in (None, total):
        raise Failed(f"of at most 16 tokens: {_told(found)}")
    return _told(found)


async def max_tokens(engine: Engine) -> str:
    return _limited(await engine.chat(max_tokens=5))


async def max_completion_tokens(engine: Engine) -> str:
    return _limited(await engine.chat(max_tokens=None, max_completion_tokens=5))


async def stop(engine: Engine) -> str:
    answer = _ended(await engine.chat(max_tokens=64, stop=list(_STOPS)))
    if any(stop in answer.text for stop in _STOPS):
        raise Failed(f"a stop string is in the text {answer.text!r}")
    if answer.finish_reason != "stop":
        raise Failed(f"it ended with {answer.finish_reason}")
    return f"{answer.text!r}, then stop"


async def seed(engine: Engine) -> str:
    return await _same(engine, temperature=1, seed=7)


async def greedy(engine: Engine) -> str:
    return await _same(engine, temperature=0)


async def turns(engine: Engine) -> str:
    """More turns are more tokens: none is dropped."""
    first = [{"role": "user", "content": "My name is Hanako and I like the sea."}]
    more = [
        {"role": "assistant", "content": "Nice to meet you, Hanako."},
        {"role": "user", "content": "Say my name once more, please."},
    ]
    short, long = [(await _turned(engine, turns)).usage.prompt_tokens for turns in (first, first + more)]
    if long < short + 8:
        raise Failed(f"one turn was read as {short} tokens, three as {long}")
    return f"{short} tokens, with two more turns {long}"


async def characters(engine: Engine) -> str:
    """Japanese and an emoji of four bytes come back whole; a cut at the limit may cut the last one."""
    answer = _ended(await engine.chat("Repeat exactly: 東京の寿司🍣 東京の寿司🍣 東京の寿司🍣", max_tokens=48))
    whole = answer.text.rstrip(_REPLACEMENT) if answer.finish_reason == "length" else answer.text
    if _REPLACEMENT in whole:
        raise Failed(f"a broken character in {answer.text!r}")
    beyond = sum(not character.isascii() for character in whole)
    return f"{len(whole)} characters, {beyond} of them beyond ASCII, none broken"


async def long_prompt(engine: Engine) -> str:
    words = min(_LONG_WORDS, (engine.context_length or 2 * _LONG_WORDS) // 2)
    found = (await engine.chat("word " * words, max_tokens=4)).usage
    if found.prompt_tokens < words:
        raise Failed(f"{words} words were read as {found.prompt_tokens} tokens")
    return f"{words} words, {_told(found)}"


async def parallel(engine: Engine) -> str:
    prompts = [f"{QUESTION} Its number is {number}." for number in range(_AT_ONCE)]
    answers = await asyncio.gather(*(engine.chat(prompt) for prompt in prompts))
    for answer in answers:
        _ended(answer)
    return f"{len(answers)} whole answers"


async def completions(engine: Engine) -> str:
    answer = _ended(await engine.complete("The capital of France is", max_tokens=8))
    return f"{answer.text!r}, {_told(answer.usage)}"


async def _turned(engine: Engine, messages: Sequence[dict[str, str]]) -> Answer:
    return await engine.chat(messages=messages, max_tokens=4)


async def _same(engine: Engine, **fields: Any) -> str:
    one, other = [await engine.chat(**fields) for _ in range(2)]
    if (one.text, one.reasoning) != (other.text, other.reasoning):
        # Official services promise no more than their best either.
        raise Unsupported(f"two texts: {one.text[:60]!r} and {other.text[:60]!r}")
    return f"the same {one.usage.completion_tokens} tokens twice"


def _ended(answer: Answer) -> Answer:
    if answer.finish_reason not in ("stop", "length"):
        raise Failed(f"the finish reason is {answer.finish_reason!r}")
    if not answer.pieces and answer.usage.completion_tokens > 1:
        raise Failed("no text came")
    return answer


def _limited(answer: Answer) -> str:
    if answer.finish_reason != "length" or answer.usage.completion_tokens > 5:
        raise Failed(f"of at most 5 tokens: {_told(answer.usage)}, ended with {answer.finish_reason}")
    return f"{answer.usage.completion_tokens} tokens, then length"


def _told(usage: Any) -> str:
    return f"{usage.prompt_tokens} tokens in, {usage.completion_tokens} out"
