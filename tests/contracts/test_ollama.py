"""Ollama 0.6.8 as it was recorded, behind its adapter: official requests in, official answers and errors out."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from struct import unpack
from typing import Any

import msgspec
import pytest

from backends.base import Load, ModelCard, Options, Readiness
from backends.errors import Broken, Rejected, TimedOut
from backends.fake import Script
from backends.ollama.backend import OllamaBackend
from backends.wire import sse
from gateway.errors import DoorError, from_backend
from gateway.streaming.meter import Meter
from tests.contracts.recorded.recordings import exchange
from tests.contracts.recorded.server import RecordedEngine, playing
from tests.contracts.replay import ReplayServer, replaying

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
HELLO = [{"role": "user", "content": "Say hello in one short sentence."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
PIXEL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
LONG = "word " * 2600
RECORDED_CONTEXT = Options(num_ctx=2048)


@pytest.fixture
async def engine() -> AsyncIterator[RecordedEngine]:
    async with playing("ollama") as recorded:
        recorded.play("26-api-show")
        yield recorded


@pytest.fixture
async def backend(engine: RecordedEngine) -> AsyncIterator[OllamaBackend]:
    made = OllamaBackend("gpu-a", engine.url, None, RECORDED_CONTEXT)
    yield made
    await made.aclose()


@pytest.fixture
async def scripted() -> AsyncIterator[tuple[OllamaBackend, ReplayServer]]:
    """Against a server that says whatever it is told to."""
    async with replaying() as server:
        made = OllamaBackend("gpu-a", server.url, None, RECORDED_CONTEXT)
        yield made, server
        await made.aclose()


async def ask(backend: OllamaBackend, path: str = CHAT, **fields: Any) -> bytes:
    if path == CHAT:
        fields = {"messages": HELLO} | fields
    if path != EMBEDDINGS:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    body = msgspec.json.encode({"model": "smollm2"} | fields)
    upstream = await backend.open(path, body, {"x-request-id": "req_1", "x-sekisho-cache-salt": "tenant"})
    try:
        return b"".join([chunk async for chunk in upstream.chunks()])
    finally:
        await upstream.aclose()


def events(answer: bytes) -> list[Any]:
    return [msgspec.json.decode(event.data) for event in sse.EventParser().feed(answer) if not event.is_done]


def text(answer: bytes) -> str:
    pieces = [choice for event in events(answer) for choice in event.get("choices", ())]
    return "".join(piece["text"] if "text" in piece else piece["delta"].get("content", "") for piece in pieces)


def error_in(answer: bytes) -> DoorError:
    """What the door makes of the error event that ends the answer."""
    *_, last = sse.EventParser().feed(answer)
    assert "error" in msgspec.json.decode(last.data)
    return from_backend(Rejected(200, last.data))


def metered(answer: bytes) -> Meter:
    meter = Meter()
    for event in sse.EventParser().feed(answer):
        meter.observe(event.data)
    return meter


async def refused(backend: OllamaBackend, path: str = CHAT, **fields: Any) -> DoorError:
    with pytest.raises(Rejected) as caught:
        await ask(backend, path, **fields)
    return from_backend(caught.value)


async def test_a_chat_is_an_official_stream(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-stream")
    answer = await ask(backend, max_completion_tokens=24, temperature=0, seed=1)
    assert text(answer) == "I'm so glad you're here, I hope it brings a smile to your face."
    meter = metered(answer)
    assert (meter.complete, meter.prompt_tokens, meter.completion_tokens) == (True, 16, 19)
    sent = engine.asked[-1]
    assert sent.path == "/api/chat"
    assert sent.fields["options"] == {"num_ctx": 2048, "num_predict": 24, "temperature": 0, "seed": 1}
    assert sent.headers["x-request-id"] == "req_1"
    assert not {"origin", "x-sekisho-cache-salt", "cookie"} & sent.headers.keys()


async def test_japanese_and_emoji_arrive_whole(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-japanese")
    lines = exchange("ollama", "40-api-chat-japanese").body.splitlines()
    assert text(await ask(backend)) == "".join(msgspec.json.decode(line)["message"]["content"] for line in lines)


async def test_one_token_is_cut_by_the_limit(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-num-predict-1")
    assert [event["choices"][0]["finish_reason"] for event in events(await ask(backend)) if event["choices"]] == [
        None,
        "length",
    ]


async def test_a_completion_is_raw_and_not_a_chat(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("42-generate-raw")
    answer = await ask(backend, COMPLETIONS, prompt="One, two,", max_tokens=8)
    assert text(answer) == " or three-digit numbers that can be"
    assert metered(answer).prompt_tokens == 4
    assert (engine.asked[-1].path, engine.asked[-1].fields["raw"]) == ("/api/generate", True)


async def test_a_streamed_completion(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("42-generate-stream")
    assert text(await ask(backend, COMPLETIONS, prompt="One, two,", max_tokens=4)) == "The original sentence is"


@pytest.mark.parametrize(
    ("recording", "wanted", "sent"),
    [
        ("40-api-chat-format-json", {"type": "json_object"}, "json"),
        (
            "40-api-chat-format-schema",
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"a": 1}}},
            {"a": 1},
        ),
    ],
)
async def test_json_is_asked_for(
    backend: OllamaBackend, engine: RecordedEngine, recording: str, wanted: Any, sent: Any
) -> None:
    engine.play(recording)
    assert msgspec.json.decode(text(await ask(backend, response_format=wanted)))["name"] == "John"
    assert engine.asked[-1].fields["format"] == sent


async def test_what_tools_hold_back_arrives_at_the_end(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("44-api-chat-tools-stream")
    answer = await ask(backend, tools=TOOLS)
    assert text(answer).startswith("Here's a more concise version")
    assert metered(answer).complete
    assert engine.asked[-1].fields["tools"] == TOOLS


async def test_models_tell_their_context_and_what_they_can(backend: OllamaBackend, engine: RecordedEngine) -> None:
    assert await backend.models() == [ModelCard("smollm2:latest", 2048, "ollama")]
    assert (await refused(backend, tools=TOOLS)).code == "unsupported_parameter"
    assert (await refused(backend, reasoning_effort="low")).code == "unsupported_parameter"
    seeing = [{"role": "user", "content": [{"type": "text", "text": "What?"}, PIXEL]}]
    assert (await refused(backend, messages=seeing)).status == 400
    assert [one.path for one in engine.asked] == ["/api/tags", "/api/ps", "/api/show"]
    await backend.models()
    assert [one.path for one in engine.asked].count("/api/show") == 1


async def test_a_model_that_cannot_be_read_is_listed_and_left_to_the_engine(
    backend: OllamaBackend, engine: RecordedEngine
) -> None:
    engine.play("26-api-show-unknown", "44-api-chat-tools-stream")
    assert await backend.models() == [ModelCard("smollm2:latest", 2048, "ollama")]
    assert metered(await ask(backend, tools=TOOLS)).complete


async def test_a_model_that_nothing_is_told_of_does_not_hold_up_the_list_for_ever(
    backend: OllamaBackend, engine: RecordedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = replace(exchange("ollama", "26-api-show"), chunked=True)
    recorded = engine.answer_to
    monkeypatch.setattr(engine, "answer_to", lambda *asked: begun if asked[1] == "/api/show" else recorded(*asked))
    engine.hold_after = 0
    backend.patience = 0.05
    with pytest.raises(TimedOut):
        await backend.models()


async def test_a_model_is_known_under_its_short_and_its_full_name(backend: OllamaBackend) -> None:
    await backend.models()
    for name in ("smollm2", "smollm2:latest"):
        fields = {"model": msgspec.Raw(msgspec.json.encode(name)), "tools": msgspec.Raw(msgspec.json.encode(TOOLS))}
        found = backend.refusal(CHAT, fields)
        assert found is not None
        assert found.param == "tools"


async def test_the_operators_word_on_tools_goes_before_the_models(engine: RecordedEngine) -> None:
    backend = OllamaBackend("gpu-a", engine.url, None, Options(tools=True, num_ctx=2048))
    await backend.models()
    engine.play("44-api-chat-tools-stream")
    assert metered(await ask(backend, tools=TOOLS)).complete
    await backend.aclose()


async def test_a_server_too_old_to_say_its_context_is_told_one(engine: RecordedEngine) -> None:
    backend = OllamaBackend("gpu-a", engine.url, None, Options(keep_alive="-1"))
    engine.play("40-api-chat-stream", "26-api-ps", "26-api-show")
    await backend.models()
    await ask(backend)
    assert (engine.asked[-1].fields["options"]["num_ctx"], engine.asked[-1].fields["keep_alive"]) == (4096, -1)
    await backend.aclose()


async def test_the_process_alone_makes_it_ready_and_it_tells_no_load(
    backend: OllamaBackend, engine: RecordedEngine
) -> None:
    assert await backend.readiness() is Readiness.READY
    assert await backend.load() == Load()
    assert [one.path for one in engine.asked] == ["/"]


async def test_embeddings(backend: OllamaBackend, engine: RecordedEngine) -> None:
    answer = msgspec.json.decode(await ask(backend, EMBEDDINGS, input=["hello", "world"]))
    recorded = msgspec.json.decode(exchange("ollama", "43-embed").body)["embeddings"]
    assert [entry["embedding"] for entry in answer["data"]] == recorded
    assert [entry["index"] for entry in answer["data"]] == [0, 1]
    assert (answer["object"], answer["usage"]) == ("list", {"prompt_tokens": 2, "total_tokens": 2})
    assert engine.asked[-1].fields["truncate"] is False


async def test_embeddings_in_base64_are_little_endian_floats(backend: OllamaBackend) -> None:
    answer = msgspec.json.decode(await ask(backend, EMBEDDINGS, input=["hello", "world"], encoding_format="base64"))
    recorded = msgspec.json.decode(exchange("ollama", "43-embed").body)["embeddings"][0]
    packed = base64.b64decode(answer["data"][0]["embedding"])
    assert unpack(f"<{len(recorded)}f", packed) == pytest.approx(recorded)


async def test_dimensions_that_were_ignored_are_told(backend: OllamaBackend) -> None:
    assert "dimensions" in (await refused(backend, EMBEDDINGS, input=["hello", "world"], dimensions=64)).message


async def test_fewer_embeddings_than_texts_are_broken(backend: OllamaBackend) -> None:
    with pytest.raises(Broken):
        await ask(backend, EMBEDDINGS, input="hello")


async def test_a_model_that_is_not_there(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-unknown-model")
    with pytest.raises(Rejected) as caught:
        await ask(backend)
    assert caught.value.status == 404


async def test_a_mistake_that_ollama_answers_with_500_is_the_clients(
    backend: OllamaBackend, engine: RecordedEngine
) -> None:
    engine.play("40-api-chat-wrong-type")
    error = await refused(backend)
    assert (error.status, error.message) == (400, 'option "temperature" must be of type float32')


async def test_tools_that_the_template_does_not_know(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-tools-unsupported")
    error = await refused(backend, tools=TOOLS)
    assert error.status == 400
    assert "does not support tools" in error.message


@pytest.mark.parametrize(
    ("status", "body", "seen"),
    [
        (503, b'{"error":"server busy, please try again.  maximum pending requests exceeded"}', 503),
        (500, b'{"error":"invalid JSON schema in format"}', 400),
        (500, b'{"error":"llama runner process has terminated: exit status 2"}', 502),
        (500, b"Internal Server Error", 502),
        (400, b'{"error":"the input length exceeds the context length"}', 400),
    ],
)
async def test_errors_of_the_engine(
    scripted: tuple[OllamaBackend, ReplayServer], status: int, body: bytes, seen: int
) -> None:
    backend, server = scripted
    server.script = Script((body,), status=status, content_type="application/json")
    error = await refused(backend)
    assert error.status == seen
    assert (error.code == "context_length_exceeded") == (b"context length" in body)


async def test_an_error_folded_into_the_text_of_another_is_unfolded(
    scripted: tuple[OllamaBackend, ReplayServer],
) -> None:
    backend, server = scripted
    said = "request (2622 tokens) exceeds the available context size (512 tokens), try increasing it"
    inner = msgspec.json.encode({"error": {"code": 400, "message": said, "type": "exceed_context_size_error"}}).decode()
    server.script = Script((msgspec.json.encode({"error": inner}),), status=400, content_type="application/json")
    error = await refused(backend)
    assert (error.status, error.code, error.message) == (400, "context_length_exceeded", said)


async def test_a_foreign_page_is_refused_by_ollama_with_nothing_said(
    scripted: tuple[OllamaBackend, ReplayServer],
) -> None:
    backend, server = scripted
    server.script = Script((), status=403)
    assert (await refused(backend)).status == 502


@pytest.mark.parametrize(
    ("recording", "path", "fields"),
    [
        ("41-prompt-longer-than-num-ctx", CHAT, {"messages": [{"role": "user", "content": LONG}]}),
        ("41-generate-raw-longer", COMPLETIONS, {"prompt": LONG}),
        (
            "41-prompt-longer-two-messages",
            CHAT,
            {
                "messages": [
                    {"role": "system", "content": "the secret is 42."},
                    {"role": "user", "content": LONG},
                    {"role": "assistant", "content": "ok"},
                    {"role": "user", "content": "what is the secret?"},
                ]
            },
        ),
    ],
)
async def test_a_prompt_that_was_cut_in_silence_ends_with_an_error(
    backend: OllamaBackend, engine: RecordedEngine, recording: str, path: str, fields: Any
) -> None:
    engine.play(recording)
    answer = await ask(backend, path, **fields)
    error = error_in(answer)
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert "2048" in error.message
    assert b"[DONE]" not in answer
    assert "finish_reason" not in {key for event in events(answer)[-2:] for key in event}
    assert (engine.asked[-1].fields["truncate"], engine.asked[-1].fields["shift"]) == (False, False)


async def test_what_surely_is_too_long_is_not_even_sent(backend: OllamaBackend, engine: RecordedEngine) -> None:
    error = await refused(backend, messages=[{"role": "user", "content": LONG * 2}])
    assert (error.status, error.code) == (400, "context_length_exceeded")
    assert "2048" in error.message
    assert "estimate" in error.message
    assert engine.asked == []


def counted(prompt: int | None, output: int, reason: str = "stop") -> Script:
    line: dict[str, Any] = {"message": {"role": "assistant", "content": "Yes."}, "done": True, "done_reason": reason}
    counts = {"eval_count": output} | ({} if prompt is None else {"prompt_eval_count": prompt})
    return Script((msgspec.json.encode(line | counts) + b"\n",), content_type="application/x-ndjson")


@pytest.mark.parametrize(
    ("prompt", "output", "whole"),
    [
        (2047, 1, True),
        (1500, 549, True),  # the last token is never read again
        (1500, 550, False),
        (2048, 1, False),
        (None, 7, True),
        (0, 7, True),
    ],
)
async def test_a_full_context_is_told_from_one_that_overflowed(
    scripted: tuple[OllamaBackend, ReplayServer], prompt: int | None, output: int, whole: bool
) -> None:
    backend, server = scripted
    server.script = counted(prompt, output)
    assert (b"[DONE]" in await ask(backend)) is whole


async def test_cached_tokens_that_are_not_counted_are_not_taken_for_a_cut(
    scripted: tuple[OllamaBackend, ReplayServer],
) -> None:
    backend, server = scripted
    server.script = counted(20, 7)
    assert b"[DONE]" in await ask(backend, messages=[{"role": "user", "content": "word " * 1500}])


@pytest.mark.parametrize("count", [None, 0])
async def test_a_long_prompt_that_is_not_counted_is_not_taken_for_a_cut(
    scripted: tuple[OllamaBackend, ReplayServer], count: int | None
) -> None:
    backend, server = scripted
    server.script = counted(count, 7)
    assert b"[DONE]" in await ask(backend, messages=[{"role": "user", "content": LONG}])


async def test_images_are_not_guessed_at(scripted: tuple[OllamaBackend, ReplayServer]) -> None:
    backend, server = scripted
    server.script = counted(1500, 7)
    assert b"[DONE]" in await ask(backend, messages=[{"role": "user", "content": [PIXEL] * 5}])


async def test_what_was_counted_teaches_the_next_estimate(scripted: tuple[OllamaBackend, ReplayServer]) -> None:
    backend, server = scripted
    dense = [{"role": "user", "content": "1 2 3 4 " * 500}]  # 4,000 bytes, two to a token
    server.script = counted(2000, 1)
    for _ in range(20):
        await ask(backend, messages=dense)
    assert (await refused(backend, messages=[{"role": "user", "content": "1 2 3 4 " * 1200}])).status == 400


async def test_a_cut_prompt_teaches_nothing(scripted: tuple[OllamaBackend, ReplayServer]) -> None:
    backend, server = scripted
    server.script = counted(2048, 1)
    for _ in range(20):
        await ask(backend, messages=[{"role": "user", "content": LONG}])
    server.script = counted(33, 1)
    for _ in range(20):
        assert b"[DONE]" not in await ask(backend, messages=[{"role": "user", "content": LONG}])


async def test_an_error_in_mid_stream_reaches_the_user(scripted: tuple[OllamaBackend, ReplayServer]) -> None:
    backend, server = scripted
    server.script = Script(
        (b'{"message":{"content":"Hel"},"done":false}\n', b'{"error":"an error was encountered while running"}\n')
    )
    answer = await ask(backend)
    assert text(answer) == "Hel"
    assert error_in(answer).status == 502


async def test_a_stream_that_stops_short_is_broken(backend: OllamaBackend, engine: RecordedEngine) -> None:
    engine.play("40-api-chat-stream")
    body = msgspec.json.encode({"model": "smollm2", "messages": HELLO, "stream": True})
    engine.hold_after = 3
    upstream = await backend.open(CHAT, body, {})
    chunks = aiter(upstream.chunks())
    assert b'"I"' in await anext(chunks)
    await upstream.aclose()
    await engine.asked[-1].closed.wait()
    assert engine.asked[-1].aborted


async def test_no_answer_without_an_end_passes_for_whole(scripted: tuple[OllamaBackend, ReplayServer]) -> None:
    backend, server = scripted
    server.script = Script((b'{"message":{"content":"Hel"},"done":false}\n',))
    with pytest.raises(Broken):
        await ask(backend)


async def test_only_listed_paths_of_ollama_are_ever_asked_for(backend: OllamaBackend, engine: RecordedEngine) -> None:
    await backend.models()
    await backend.readiness()
    for path, fields in ((CHAT, {}), (COMPLETIONS, {"prompt": "a"}), (EMBEDDINGS, {"input": ["a", "b"]})):
        await ask(backend, path, **fields)
    for path in ("/api/pull", "/api/delete", "/v1/rerank", "/v1/chat/completions/../../api/delete"):
        assert (await refused(backend, path)).status == 400
    listed = {"/", "/api/tags", "/api/ps", "/api/show", "/api/chat", "/api/generate", "/api/embed"}
    assert {one.path for one in engine.asked} == listed


def test_an_assistants_last_message_is_not_continued() -> None:
    recorded = exchange("ollama", "40-api-chat-prefill")
    assert recorded.asked["messages"][-1]["content"].endswith("Mercury,")
    assert msgspec.json.decode(recorded.body)["message"]["content"].startswith("Mercury is")  # it began anew
    assert OllamaBackend.continues is False
