"""A scripted engine that keeps every promise of the contract, but those that a test names."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from backends.check.engine import ENDLESS
from backends.errors import BackendError
from backends.fake import DONE, FakeBackend, Script, event

CONTEXT = 4096
_numbers = itertools.count()


def engine(*broken: str) -> FakeBackend:
    fake = FakeBackend(lambda body: _answer(msgspec.json.decode(body), frozenset(broken)))
    fake.continues = "continues" not in broken
    return fake


def _answer(asked: dict[str, Any], broken: frozenset[str]) -> Script:
    if "input" in asked:
        return _json({"data": [{"embedding": [0.5] * size} for size in ((2, 3) if "vectors" in broken else (2, 2))]})
    if "documents" in asked:
        return _json({"results": [{"index": 1}, {"index": 1 if "ranks" in broken else 0}]})
    prompt = str(asked["messages"][-1]["content"]) if "messages" in asked else asked["prompt"]
    read = sum(len(message["content"].split()) for message in asked.get("messages", ())) or len(prompt.split())
    if mistake := _mistake(asked, read, broken):
        return _json({"error": {"message": mistake[1]}}, mistake[0])
    if "cuts" in broken:
        read = min(read, 12)
    text, reason = _said(asked, prompt, broken)
    return Script(_steps(asked, text, reason, read, broken))


def _mistake(asked: dict[str, Any], read: int, broken: frozenset[str]) -> tuple[int, str] | None:
    found = None
    if asked["model"] != "fake" and "any model" not in broken:
        found = 404, "model not found"
    elif asked.get("temperature") == "warm":
        found = 400, "temperature must be a number"
    elif read > CONTEXT and "cuts" not in broken:
        found = 400, "longer than the context length"
    return (500, "oh") if found and "blames itself" in broken else found


def _said(asked: dict[str, Any], prompt: str, broken: frozenset[str]) -> tuple[list[str], str]:
    """Pieces of text, one a token, and how they end."""
    limits = [asked.get("max_tokens") if "max_tokens" not in broken else None]
    limits += [asked.get("max_completion_tokens") if "max_completion_tokens" not in broken else None]
    limit = min(filter(None, limits), default=None)
    if asked.get("response_format") and "forms" not in broken:
        return ['{"colour":"blue",', '"is_warm":', '"no"}' if "schemas" in broken else "false}"], "stop"
    if prompt.startswith("1, 2, 3"):
        return [f"{prompt} 10" if "repeats" in broken else " 10", ", 11"], "stop"
    if "東京" in prompt:
        return ["東京", "\N{REPLACEMENT CHARACTER}\N{SUSHI}" if "characters" in broken else "\N{SUSHI}"], "stop"
    words = [f"word{number}" if number == 0 else f" word{number}" for number in range(limit or 30)]
    if "moods" in broken:
        words[0] = f"word{next(_numbers)}"
    if asked.get("stop") and "stop" not in broken:
        return words if "stop is kept" in broken else words[:1], "stop"
    return words, "length" if limit and "reasons" not in broken else "stop"


def _steps(
    asked: dict[str, Any], text: list[str], reason: str, read: int, broken: frozenset[str]
) -> list[bytes | float | BackendError]:
    chat = "messages" in asked
    pause = 0.02 if asked.get("messages", [{}])[-1].get("content") == ENDLESS else 0.0
    steps: list[bytes | float | BackendError] = []
    if "stumbles" in broken:
        steps.append(event({"error": {"message": "out of memory", "code": 500}}))
    if "lumps" in broken:
        text = ["".join(text)]
    for index in range(1 if "n" in broken else asked.get("n", 1)):
        if asked.get("tools") and "tools" not in broken:
            city = "Rome" if "schemas" in broken else "Paris"
            call = {
                "index": 0,
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": f'{{"city":"{city}"}}'},
            }
            steps.append(_choice(index, {"role": "assistant", "tool_calls": [call]}, "tool_calls"))
            continue
        for piece in text:
            said = {"role": "assistant", "content": piece} if chat else piece
            others = [] if "alternatives" in broken else [{"token": piece, "logprob": -0.5}]
            one = {"token": piece, "logprob": -0.5, "top_logprobs": others}
            probable = {"content": [one]} if asked.get("logprobs") and "logprobs" not in broken else None
            steps += [_choice(index, said, None, probable), pause]
        steps.append(_choice(index, {} if chat else "", reason))
    made = len(text) if "usage" not in broken else 99
    steps.append(event({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": made}}))
    return steps if "ends" in broken else [*steps, DONE]


def _choice(index: int, said: Any, reason: str | None, logprobs: Any = None) -> bytes:
    name = "text" if isinstance(said, str) else "delta"
    return event({"choices": [{"index": index, name: said, "finish_reason": reason, "logprobs": logprobs}]})


def _json(answer: object, status: int = 200) -> Script:
    return Script([msgspec.json.encode(answer)], status=status, content_type="application/json")
