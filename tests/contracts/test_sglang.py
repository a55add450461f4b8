"""SGLang as it was recorded: what it is sent, and what is made of what it answers."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest

from backends.base import Load, ModelCard, Options, Readiness
from backends.errors import Broken, Rejected
from backends.fake import Script
from backends.registry import create
from gateway.errors import from_backend
from tests.contracts.recorded.rig import CHAT, COMPLETIONS, ask, behind, read, refused
from tests.contracts.replay import replaying

TOOLS = [{"type": "function", "function": {"name": "f"}}]
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]


async def test_a_model_list_does_not_make_it_ready() -> None:
    async with behind("sglang") as (backend, engine):
        engine.play("26-loading")
        assert await backend.models() == [ModelCard("smollm2", 2048, "sglang")]
        assert await backend.readiness() is Readiness.WARMING
        engine.play()
        assert await backend.readiness() is Readiness.READY
        engine.play("31-without-key")
        assert await backend.readiness() is Readiness.MISCONFIGURED


async def test_its_load_is_told_and_not_trusted() -> None:
    async with behind("sglang") as (backend, _):
        assert await backend.load() == Load(0, 0, 0.0, 16384, 16384, block_size=1, slots=4)
        assert not backend.trusts_load


async def test_an_older_one_tells_its_load_by_its_metrics() -> None:
    async with behind("sglang") as (backend, engine):
        engine.lacks("/v1/loads")
        engine.play("30-priority-3-on-1")
        load = await backend.load()
    assert (load.running, load.waiting, load.slots) == (0, 0, None)


async def test_one_answer_has_an_id_that_no_other_attempt_has() -> None:
    async with behind("sglang") as (backend, engine):
        for _ in range(2):
            await ask(backend)
        await ask(backend, n=2)
        first, second, several = (asked.fields for asked in engine.asked)
    assert first["rid"] != second["rid"]
    assert len(first["rid"]) == len(second["rid"])  # so that the one is not the beginning of the other
    assert first["rid"].startswith("r" * 32)
    assert "rid" not in several


async def test_tenants_share_no_cached_prefix() -> None:
    async with behind("sglang") as (backend, engine):
        for tenant in ("acme", "other"):
            await ask(backend, headers={"x-sekisho-cache-salt": tenant})
        salts = [asked.fields["cache_salt"] for asked in engine.asked]
    assert salts[0] != salts[1]
    assert "acme" not in salts[0]


async def test_what_it_says_of_itself_decides_of_tools_and_images_and_the_operator_over_that() -> None:
    async with behind("sglang") as (backend, engine):
        await backend.models()
        assert any(asked.played == "26-model-info" for asked in engine.asked)
        assert (refused(backend, tools=TOOLS) or ("",))[0].startswith("This model's engine cannot call tools")
        assert (refused(backend, messages=IMAGE) or ("", ""))[1] == "messages[0].content[0].type"
    async with behind("sglang", Options(tools=True, images=True)) as (backend, _):
        await backend.models()
        assert refused(backend, tools=TOOLS) is None
        assert refused(backend, messages=IMAGE) is None
    for options, refuses in ((Options(), False), (Options(tools=False, images=False), True)):
        async with behind("sglang", options) as (backend, engine):
            engine.says("/model_info", b'"tool_call_parser":"qwen25"', old=b'"tool_call_parser":null')
            engine.says("/model_info", b'"has_image_understanding":true', old=b'"has_image_understanding":false')
            await backend.models()
            assert (refused(backend, tools=TOOLS) is not None) == refuses
            assert (refused(backend, messages=IMAGE) is not None) == refuses


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (CHAT, "bad_words", ["no"]),
        (CHAT, "typical_p", 0.5),
        (CHAT, "prompt_logprobs", 0),
        (CHAT, "structured_outputs", {"choice": ["a"]}),
        (CHAT, "include_stop_str_in_output", True),
        (CHAT, "spaces_between_special_tokens", False),
        (CHAT, "add_special_tokens", True),
        (CHAT, "add_generation_prompt", False),
        (CHAT, "echo", True),
        (COMPLETIONS, "best_of", 2),
        ("/v1/rerank", "truncate_prompt_tokens", 5),
    ],
)
async def test_what_it_would_ignore_is_refused_by_name(path: str, field: str, value: object) -> None:
    async with behind("sglang") as (backend, _):
        refusal = refused(backend, path, **{field: value})
    assert refusal is not None
    assert refusal.param == field
    assert f"'{field}'" in refusal.message


async def test_what_it_honours_is_not_refused() -> None:
    async with behind("sglang") as (backend, _):
        assert refused(backend, COMPLETIONS, echo=True, logprobs=2, seed=1, skip_special_tokens=False) is None
        assert refused(backend, seed=1, min_tokens=3, top_k=1, logit_bias={"5": 1}, stop_token_ids=[2]) is None
        assert refused(backend, continue_final_message=True, add_generation_prompt=False) is None


async def test_it_goes_on_with_an_answer_and_sends_only_what_is_new() -> None:
    async with behind("sglang") as (backend, engine):
        assert backend.continues
        answer = await ask(backend, continue_final_message=True, add_generation_prompt=False, max_tokens=12)
        assert engine.asked[0].played == "24-prefill-continue-stream"
    assert b'" Venus"' in answer
    assert b"Mercury" not in answer


async def test_embeddings_of_a_chat_model_are_the_clients_mistake() -> None:
    async with behind("sglang") as (backend, engine):
        with pytest.raises(Rejected) as caught:
            await backend.open("/v1/embeddings", b'{"model":"smollm2","input":["a","b"]}', {"x-request-id": "r"})
        assert set(engine.asked[0].fields) == {"model", "input"}
    assert from_backend(caught.value).status == 400
    assert msgspec.json.decode(caught.value.body)["code"] == 400


# As its documentation shows it; no ranking was recorded.
RANKING = [
    {"score": 0.9, "document": "b", "index": 1, "meta_info": {"id": "x", "prompt_tokens": 5}},
    {"score": 0.2, "document": "a", "index": 0, "meta_info": {"id": "y", "prompt_tokens": 4}},
]


@pytest.mark.parametrize(
    ("asked", "results"),
    [
        ({}, [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]),
        ({"top_n": 1}, [{"index": 1, "relevance_score": 0.9}]),
        (
            {"top_n": 1, "return_documents": True},
            [{"index": 1, "relevance_score": 0.9, "document": {"text": "b"}}],
        ),
    ],
)
async def test_a_ranking_is_told_as_other_engines_tell_it(asked: dict[str, Any], results: list[Any]) -> None:
    async with replaying() as server, contextlib.aclosing(create("sglang", server.url)) as backend:
        server.script = Script((msgspec.json.encode(RANKING),), content_type="application/json")
        body = msgspec.json.encode({"model": "m", "query": "q", "documents": ["a", "b"], **asked})
        answer = msgspec.json.decode(await read(await backend.open("/v1/rerank", body, {})))
    assert answer == {"model": "m", "results": results, "usage": {"prompt_tokens": 9, "total_tokens": 9}}


async def test_a_ranking_that_cannot_be_read_is_broken() -> None:
    async with replaying() as server, contextlib.aclosing(create("sglang", server.url)) as backend:
        server.script = Script((b'{"message":"no"}',), content_type="application/json")
        upstream = await backend.open("/v1/rerank", b'{"model":"m","query":"q","documents":["a"]}', {})
        with pytest.raises(Broken):
            await read(upstream)
