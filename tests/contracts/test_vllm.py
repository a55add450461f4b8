"""vLLM as it was recorded: what it is sent, and what is made of what it answers."""

from __future__ import annotations

import msgspec
import pytest

from backends.base import Load, ModelCard, Options, Readiness
from backends.errors import Rejected
from tests.contracts.recorded.rig import ask, behind, refused

STEERED = {"x-request-id": "r" * 32, "x-sekisho-cache-salt": "acme", "x-sekisho-class": "interactive"}


async def test_it_is_ready_when_its_port_answers_and_misconfigured_where_it_knows_our_key_not() -> None:
    async with behind("vllm") as (backend, engine):
        assert await backend.readiness() is Readiness.READY
        assert await backend.models() == [ModelCard("smollm2", 2048, "vllm")]
        engine.play("31-without-key")
        assert await backend.readiness() is Readiness.MISCONFIGURED


async def test_its_gauges_are_its_load() -> None:
    async with behind("vllm") as (backend, engine):
        engine.play("27-metrics-under-load")
        load = await backend.load()
    assert backend.trusts_load
    assert load == Load(4, 0, load.kv_use, preemptions=0)  # the cut recording leaves out how large the cache is
    assert 0 < (load.kv_use or 0) < 1


async def test_each_attempt_has_an_id_of_its_own_and_each_tenant_a_cache_of_its_own() -> None:
    async with behind("vllm") as (backend, engine):
        for tenant in ("acme", "acme", "other"):
            await ask(backend, headers=STEERED | {"x-sekisho-cache-salt": tenant})
        sent = [asked.fields for asked in engine.asked]
        assert "x-request-id" not in engine.asked[0].headers  # it would be the id in place of the attempt's
    assert len({fields["request_id"] for fields in sent}) == 3
    assert all(fields["request_id"].startswith("r" * 32 + "-") for fields in sent)
    assert sent[0]["cache_salt"] == sent[1]["cache_salt"] != sent[2]["cache_salt"]
    assert "acme" not in sent[0]["cache_salt"]


async def test_nothing_that_is_null_is_sent() -> None:
    async with behind("vllm") as (backend, engine):
        await ask(backend, temperature=None, stop=None, top_p=0.5)
        assert engine.asked[0].fields.keys() & {"temperature", "stop", "top_p"} == {"top_p"}


async def test_whoever_goes_on_with_an_answer_asks_for_no_new_one() -> None:
    async with behind("vllm") as (backend, engine):
        assert backend.continues
        answer = await ask(backend, continue_final_message=True, max_tokens=12)
        assert engine.asked[0].played == "24-prefill-continue-stream"
        assert engine.asked[0].fields["add_generation_prompt"] is False
        assert b'" Venus"' in answer


async def test_tools_are_left_to_it_unless_the_operator_says_that_it_has_no_parser() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with behind("vllm") as (backend, engine):
        assert refused(backend, tools=tools) is None
        engine.play("10-tools-auto")
        with pytest.raises(Rejected, match="400"):
            await ask(backend, tools=tools)
    async with behind("vllm", Options(tools=False)) as (backend, _):
        refusal = refused(backend, tools=tools)
        assert refusal is not None
        assert refusal.param == "tools"
        assert refused(backend, tools=tools, tool_choice="none") is None


async def test_an_endpoint_that_its_model_does_not_serve_is_said_not_to_be_supported() -> None:
    async with behind("vllm") as (backend, engine):
        with pytest.raises(Rejected) as caught:
            await backend.open("/v1/embeddings", b'{"model":"smollm2","input":"a"}', STEERED)
        assert set(engine.asked[0].fields) == {"model", "input"}
    assert caught.value.status == 501
    assert "endpoint" in msgspec.json.decode(caught.value.body)["error"]["message"]


async def test_images_are_read_only_where_the_operator_says_so() -> None:
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    async with behind("vllm") as (backend, _):
        assert (refused(backend, messages=messages) or ("", ""))[1] == "messages[0].content[0].type"
    async with behind("vllm", Options(images=True)) as (backend, _):
        assert refused(backend, messages=messages) is None


async def test_what_it_would_ignore_is_refused_and_what_it_honours_is_not() -> None:
    async with behind("vllm") as (backend, _):
        assert (refused(backend, functions=[{"name": "f"}]) or ("", ""))[1] == "functions"
        assert (refused(backend, typical_p=0.5) or ("", ""))[1] == "typical_p"
        assert refused(backend, bad_words=["no"], structured_outputs={"choice": ["a"]}, reasoning_effort="low") is None
