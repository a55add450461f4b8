"""Several counts in one stream become one."""

from __future__ import annotations

import json
from typing import Any

from backends.counted_once import CountedOnce
from backends.fake import DONE, Asked, FakeUpstream, Script, event

PATH = "/v1/completions"


def piece(index: int) -> bytes:
    return event({"id": "c", "choices": [{"index": index, "text": "a", "finish_reason": None}]})


def count(prompt: int, completion: int, **more: Any) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, **more}
    return event({"id": "c", "created": 5, "model": "m", "choices": [], "usage": usage})


async def told(*steps: bytes, choices: int = 1) -> list[bytes]:
    upstream = CountedOnce(FakeUpstream(Script(steps), Asked("", b"", {})), PATH, choices)
    return [chunk async for chunk in upstream.chunks()]


async def test_choices_of_several_prompts_are_counted_together_and_each_prompt_once() -> None:
    cached = {"prompt_tokens_details": {"cached_tokens": 3}}
    steps = [count(4, 1, **cached), piece(0), count(4, 2, **cached), count(6, 3), piece(3), count(6, 4)]
    *pieces, end = await told(*steps, DONE, choices=2)
    assert pieces == [piece(0), piece(3)]
    last, done = end.split(b"\n\n", 1)
    assert done == DONE
    assert json.loads(last.removeprefix(b"data: ")) == {
        "id": "c",
        "object": "text_completion",
        "created": 5,
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 10,
            "total_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
    }


async def test_what_cannot_be_read_is_left_to_the_door() -> None:
    strange = [b"data: {half\n\n", b'data: {"choices":"\xff"}\n\n', b'data: {"error":{"message":"no"}}\n\n']
    assert await told(*strange) == strange


async def test_a_stream_without_counts_is_given_none() -> None:
    assert await told(piece(0), DONE) == [piece(0), DONE]
