"""The contract's checks on Ollama and SGLang as they were recorded.

A recording answers alike whatever it is asked, so it cannot answer checks that compare two answers (seed, greedy,
turns), that ask for other texts than were recorded (stop, structured_output, continuation), for prompts of
another length (long_prompt), or for a load that moves (load, of SGLang). SGLang was not
recorded streaming with both a limit and usage (max_tokens, max_completion_tokens, usage).
"""

from __future__ import annotations

import pytest

from backends.check import CHECKS, Engine, Outcome, examine
from tests.contracts.recorded.rig import behind

BY_NAME = {check.name: check for check in CHECKS}


async def recorded(kind: str, name: str, *recordings: str) -> Outcome:
    """The outcome of a check, these recordings answering it first."""
    async with behind(kind) as (backend, engine):
        card = (await backend.models())[0]
        engine.play(*recordings)
        return await examine(BY_NAME[name], Engine(backend, card.id, card.context_length), seconds=20)


@pytest.mark.parametrize(
    ("kind", "name", "recording"),
    [
        ("ollama", "readiness", "26-root"),
        ("ollama", "models", "26-api-tags"),
        ("ollama", "kind", "26-api-tags"),
        ("ollama", "stream", "40-api-chat-stream"),
        ("ollama", "usage", "40-api-chat-num-predict-1"),
        ("ollama", "max_tokens", "40-api-chat-num-predict-1"),
        ("ollama", "max_completion_tokens", "40-api-chat-num-predict-1"),
        ("ollama", "unknown_model", "40-api-chat-unknown-model"),
        ("ollama", "too_long", "41-prompt-longer-than-num-ctx"),
        ("ollama", "bad_value", "40-api-chat-wrong-type"),
        ("ollama", "characters", "40-api-chat-japanese"),
        ("ollama", "parallel", "40-api-chat-stream"),
        ("ollama", "completions", "42-generate-raw"),
        ("ollama", "embeddings", "43-embed"),
        ("ollama", "abort", "40-api-chat-stream"),
        ("sglang", "readiness", "26-health"),
        ("sglang", "models", "01-models"),
        ("sglang", "kind", "01-models"),
        ("sglang", "stream", "04-chat-stream-usage"),
        ("sglang", "logprobs", "08-logprobs-stream"),
        ("sglang", "choices", "07-n2-stream"),
        ("sglang", "too_long", "17-prompt-too-long-stream"),
        ("sglang", "bad_value", "20-wrong-type-temperature"),
        ("sglang", "characters", "13-japanese-emoji-stream"),
        ("sglang", "parallel", "04-chat-stream-usage"),
        ("sglang", "completions", "14-completion-stream"),
        ("sglang", "abort", "04-chat-stream-usage"),
    ],
)
async def test_a_recorded_engine_passes(kind: str, name: str, recording: str) -> None:
    outcome = await recorded(kind, name, recording)
    assert outcome.verdict == "ok", outcome.seen


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ollama", ("logprobs", "tools", "choices", "rerank", "continuation", "load")),
        ("sglang", ("tools", "embeddings", "rerank", "unknown_model")),
    ],
)
async def test_what_a_recorded_engine_lacks_is_told(kind: str, names: tuple[str, ...]) -> None:
    outcomes = [await recorded(kind, name) for name in names]
    assert {outcome.check: outcome.verdict for outcome in outcomes} == dict.fromkeys(names, "not supported")
