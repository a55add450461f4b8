"""llama.cpp's server as it was recorded: what it is sent, and what is made of what it answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from backends.base import Load, ModelCard, Options, Readiness
from backends.errors import Rejected
from backends.wire.sse import EventParser
from tests.contracts.recorded.rig import CHAT, COMPLETIONS, ask, behind, refused

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("one", "two")]
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
SPOKEN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Mercury,"}]


def events(answer: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(event.data) for event in EventParser().feed(answer) if not event.is_done]


async def test_it_warms_while_it_loads_and_is_misconfigured_without_its_key() -> None:
    async with behind("llamacpp") as (backend, engine):
        engine.play("26-loading")
        assert await backend.readiness() is Readiness.WARMING
        engine.play("31-without-key")
        assert await backend.readiness() is Readiness.MISCONFIGURED
        engine.play()
        assert await backend.readiness() is Readiness.READY
        assert await backend.models() == [ModelCard("smollm2", 2048, "llamacpp")]


async def test_its_load_is_its_metrics_and_its_slots() -> None:
    async with behind("llamacpp") as (backend, engine):
        await backend.models()
        engine.play("27-metrics-under-load")
        assert await backend.load() == Load(2, 2, slots=2)


async def test_without_metrics_its_busy_slots_are_its_load() -> None:
    async with behind("llamacpp") as (backend, engine):
        engine.play("27-metrics-disabled")
        assert await backend.load() == Load(0)
        engine.lacks("/slots")
        assert await backend.load() == Load()


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (CHAT, "bad_words", ["no"]),
        (CHAT, "prompt_logprobs", 0),
        (CHAT, "structured_outputs", {"choice": ["a"]}),
        (CHAT, "stop_token_ids", [2]),
        (CHAT, "min_tokens", 5),
        (CHAT, "echo", True),
        (CHAT, "include_stop_str_in_output", True),
        (CHAT, "skip_special_tokens", False),
        (CHAT, "add_special_tokens", False),
        (CHAT, "reasoning_effort", "low"),
        (CHAT, "functions", [{"name": "f"}]),
        (CHAT, "modalities", ["text", "audio"]),
        (COMPLETIONS, "logprobs", 2),
        (COMPLETIONS, "logprobs", 0),
        (COMPLETIONS, "suffix", "end"),
        ("/v1/embeddings", "dimensions", 64),
        ("/v1/rerank", "return_documents", True),
    ],
)
async def test_what_it_would_ignore_or_answer_otherwise_is_refused_by_name(
    path: str, field: str, value: object
) -> None:
    async with behind("llamacpp") as (backend, _):
        await backend.models()
        refusal = refused(backend, path, **{field: value})
    assert refusal is not None
    assert (refusal.param, refusal.code) == (field, "unsupported_parameter")


async def test_what_asks_for_nothing_is_not_refused() -> None:
    async with behind("llamacpp") as (backend, _):
        assert refused(backend, echo=False, bad_words=[], min_tokens=0, modalities=["text"], logprobs=True) is None
        assert refused(backend, COMPLETIONS, logprobs=None, best_of=1, suffix="", skip_special_tokens=True) is None
        assert refused(backend, tools=[], user="me", metadata={"a": "b"}, reasoning_effort=None) is None


async def test_its_template_decides_of_tools_and_the_operator_over_that() -> None:
    async with behind("llamacpp") as (backend, _):
        await backend.models()
        assert (refused(backend, tools=TOOLS, tool_choice="required") or ("", ""))[1] == "tools"
    async with behind("llamacpp", Options(tools=True)) as (backend, _):
        assert refused(backend, tools=TOOLS, tool_choice="required") is None


async def test_what_its_model_can_is_let_through_unless_the_operator_says_no() -> None:
    for options, refuses in ((Options(), False), (Options(tools=False, images=False), True)):
        async with behind("llamacpp", options) as (backend, engine):
            engine.says("/props", b'"supports_tools":true', old=b'"supports_tools":false')
            engine.says("/props", b'"vision":true', old=b'"vision":false')
            engine.says("/props", b'"supports_reasoning_effort":true', old=b'"supports_reasoning_effort":false')
            await backend.models()
            assert (refused(backend, tools=TOOLS) is not None) == refuses
            assert (refused(backend, messages=IMAGE) is not None) == refuses
            assert refused(backend, reasoning_effort="low") is None


async def test_the_one_tool_that_must_be_called_is_the_only_one_it_is_given() -> None:
    async with behind("llamacpp", Options(tools=True)) as (backend, engine):
        await ask(backend, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "two"}})
        sent = engine.asked[0].fields
    assert (sent["tools"], sent["tool_choice"]) == (TOOLS[1:], "required")


@pytest.mark.parametrize(
    "choice", [{"type": "function", "function": {"name": "three"}}, {"type": "allowed_tools"}, {"function": "one"}]
)
async def test_a_choice_that_names_none_of_the_tools_is_refused(choice: object) -> None:
    async with behind("llamacpp", Options(tools=True)) as (backend, _):
        assert (refused(backend, tools=TOOLS, tool_choice=choice) or ("", ""))[1] == "tool_choice"


async def test_repetition_penalty_is_sent_under_its_own_name_for_it() -> None:
    async with behind("llamacpp") as (backend, engine):
        await ask(backend, repetition_penalty=1.3, tool_choice="auto")
        sent = engine.asked[0].fields
    assert (sent["repeat_penalty"], sent["tool_choice"]) == (1.3, "auto")
    assert "repetition_penalty" not in sent


async def test_an_answer_is_gone_on_with_only_where_that_is_asked_for() -> None:
    async with behind("llamacpp") as (backend, engine):
        assert backend.continues
        assert (refused(backend, messages=SPOKEN) or ("", ""))[1] == "messages"
        assert refused(backend, messages=[*SPOKEN, {"role": "user", "content": "Go on"}]) is None
        assert refused(backend, messages=SPOKEN, continue_final_message=True) is None
        answer = await ask(backend, continue_final_message=True, max_tokens=12)
        assert engine.asked[0].fields["add_generation_prompt"] is False
        assert engine.asked[0].played == "24-prefill-continue-stream"
    assert b'" Venus"' in answer
    assert b"Mercury" not in answer


async def test_more_choices_than_slots_are_refused() -> None:
    async with behind("llamacpp") as (backend, _):
        assert refused(backend, n=3) is None  # as long as it has not said how many it has
        await backend.models()
        assert refused(backend, n=2) is None
        refusal = refused(backend, n=3)
    assert refusal is not None
    assert refusal.param == "n"


async def test_an_image_is_the_clients_mistake_even_where_the_engine_calls_it_its_own() -> None:
    async with behind("llamacpp") as (backend, _):
        await backend.models()
        assert (refused(backend, messages=IMAGE) or ("", ""))[1] == "messages[0].content[0].type"
    async with behind("llamacpp", Options(images=True)) as (backend, engine):
        assert refused(backend, messages=IMAGE) is None
        engine.play("23-content-image")
        with pytest.raises(Rejected) as caught:
            await ask(backend, messages=IMAGE)
    assert caught.value.status == 400


async def test_several_answers_are_counted_once_and_as_all_of_them() -> None:
    async with behind("llamacpp") as (backend, engine):
        told = events(await ask(backend, n=2))
        recorded = events(engine.answer_to("POST", CHAT, engine.asked[0].fields).body)
    assert [event["usage"]["completion_tokens"] for event in recorded if "usage" in event] == [8, 8]
    assert [event for event in told if "usage" not in event] == [event for event in recorded if "usage" not in event]
    assert [event["usage"] for event in told if "usage" in event] == [
        {
            "prompt_tokens": 37,
            "completion_tokens": 16,
            "total_tokens": 53,
            "prompt_tokens_details": {"cached_tokens": 36},
        }
    ]
    assert told[-1]["choices"] == []
