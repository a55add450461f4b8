"""An answer that breaks off is gone on with elsewhere, and reads as if it had never broken off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import BackendError, Broken, Rejected, TimedOut
from backends.fake import DONE, Asked, FakeUpstream, Script, event
from gateway.errors import ClientStalled, DoorError, EngineBroken, EngineRefused, EngineSilent
from gateway.scope import RequestScope
from gateway.streaming.collect import CollectSink
from gateway.streaming.continuation import MAX_BYTES, Continuation, Transcript
from gateway.streaming.edit import renamed
from gateway.streaming.meter import Meter
from gateway.streaming.pump import pump
from gateway.streaming.relay import StreamSink
from gateway.streaming.watch import Patience

PATIENCE = Patience(5.0, 5.0, 5.0)
PROMPT = 5  # tokens
Fields = dict[str, msgspec.Raw]


def fields(**more: Any) -> Fields:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]} | more
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in asked.items()}


def plain(asked: Fields) -> dict[str, Any]:
    return dict(msgspec.json.decode(msgspec.json.encode(asked)))


def chunk(number: int, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": number, "model": f"m{number}"}
    return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)


class Engines:
    """Engines that would all give one answer, a piece a token; the nth dies after its nth of `deaths`."""

    def __init__(self, pieces: Sequence[str], deaths: Sequence[int], failure: BackendError | None = None) -> None:
        self.pieces = pieces
        self.deaths = deaths
        self.failure = failure or Broken("gone")
        self.asked: list[dict[str, Any]] = []

    def answer(self, asked: Fields) -> FakeUpstream:
        number, body = len(self.asked), plain(asked)
        self.asked.append(body)
        last = body["messages"][-1]
        before = last["content"] if last["role"] == "assistant" else ""
        assert before == before.rstrip()
        assert "".join(self.pieces).startswith(before)
        rest = self._after(len(before))
        steps: list[Any] = [chunk(number, {"role": "assistant", "content": ""})]
        steps += [chunk(number, {"content": piece}) for piece in rest]
        if number < len(self.deaths):
            steps = [*steps[: self.deaths[number] + 1], self.failure]
        else:
            prompt = PROMPT + len(self.pieces) - len(rest)
            usage = {"prompt_tokens": prompt, "completion_tokens": len(rest), "total_tokens": prompt + len(rest)}
            steps += [chunk(number, {}, "stop"), chunk(number, {}, usage=usage, choices=[]), DONE]
        return FakeUpstream(Script(steps), Asked("/v1/chat/completions", b"", {}))

    def _after(self, length: int) -> list[str]:
        rest = []
        for piece in self.pieces:
            if length < len(piece):
                rest.append(piece[max(0, length) :])
            length -= len(piece)
        return rest


class Client:
    """What a client is sent, as a stream or in one piece."""

    def __init__(self, stream: bool) -> None:
        self.meter = Meter()
        self.transcript = Transcript()
        self.sent = b""
        request = RequestScope("id", "POST", "/", {}, 0, 0, self._receive, self._send, 0.0, streaming=stream)
        self.sink = StreamSink(request, 15.0) if stream else CollectSink(request)

    async def take(self, upstream: FakeUpstream, edit: Any = None) -> None:
        await pump(upstream, self.meter, self.sink, PATIENCE, wants_usage=True, transcript=self.transcript, edit=edit)

    async def has(self, engines: Engines, asked: Fields) -> None:
        """As a pipeline would: another engine, as long as there is something that it can go on with."""
        going_on: Continuation | None = None
        while True:
            sent = going_on.fields if going_on else asked
            try:
                return await self.take(engines.answer(sent), going_on.edit if going_on else None)
            except DoorError:
                going_on = self.transcript.continuation(asked, "chat") if self.meter.began else None
                if self.meter.began and going_on is None:
                    raise
            finally:
                self.sink.close()

    @property
    def events(self) -> list[Any]:
        data = [line.removeprefix(b"data: ") for line in self.sent.split(b"\n\n") if line]
        return [line.decode() if line == b"[DONE]" else msgspec.json.decode(line) for line in data]

    @property
    def text(self) -> str:
        choices = [choice for event in self.events[:-1] for choice in event["choices"]]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def text_so_far(self) -> str:
        """Of an answer that has no end."""
        return "".join(choice["delta"]["content"] for event in self.events for choice in event["choices"])

    async def _receive(self) -> Any: ...

    async def _send(self, message: Any) -> None:
        self.sent += message.get("body", b"")


PIECES = ("Once", " upon", " a", " time", "\n", "\n", "there", " was", " 日本", "🙂", ".")


@pytest.mark.parametrize("death", range(1, len(PIECES) + 1))
async def test_a_stream_that_breaks_off_anywhere_reads_like_one_that_did_not(death: int) -> None:
    client = Client(stream=True)
    await client.has(Engines(PIECES, [death]), fields())
    assert client.text == "".join(PIECES)
    assert client.events[-1] == "[DONE]"
    heads = {(each["id"], each["created"], each["model"]) for each in client.events[:-1]}
    assert heads == {("chatcmpl-0", 0, "m0")}
    roles = [c["delta"]["role"] for each in client.events[:-1] for c in each["choices"] if "role" in c["delta"]]
    assert roles == ["assistant"]
    assert [c["finish_reason"] for each in client.events[:-1] for c in each["choices"]].count("stop") == 1
    usage = client.events[-2]["usage"]
    assert usage == {
        "prompt_tokens": PROMPT, "completion_tokens": len(PIECES), "total_tokens": PROMPT + len(PIECES)
    }  # fmt: skip
    assert (client.meter.prompt_tokens, client.meter.completion_tokens) == (PROMPT, len(PIECES))


async def test_a_collected_answer_is_joined_like_a_stream() -> None:
    client = Client(stream=False)
    await client.has(Engines(PIECES, [3, 2]), fields())
    answer = msgspec.json.decode(client.sent)
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "".join(PIECES)}
    assert answer["id"] == "chatcmpl-0"
    assert answer["usage"]["completion_tokens"] == len(PIECES)


WORDS = st.text(alphabet="ab 　\n\t語🙂", min_size=1, max_size=4)


@given(st.lists(WORDS, min_size=1, max_size=12), st.lists(st.integers(1, 6), max_size=4))
async def test_however_often_it_breaks_off_no_character_is_missing_or_repeated(
    pieces: list[str], deaths: list[int]
) -> None:
    client = Client(stream=True)
    engines = Engines(pieces, deaths)
    await client.has(engines, fields())
    assert client.text == "".join(pieces)
    usage = client.events[-2]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] == client.meter.completion_tokens


async def test_an_answer_that_did_not_begin_is_begun_anew_with_one_role() -> None:
    client = Client(stream=True)
    engines = Engines(PIECES, [0])
    await client.has(engines, fields())
    assert engines.asked[0] == engines.asked[1]
    assert client.text == "".join(PIECES)
    assert {each["id"] for each in client.events[:-1]} == {"chatcmpl-1"}


async def test_what_remains_of_every_limit_is_asked_for_and_all_else_stays() -> None:
    engines = Engines(PIECES, [4])
    asked = fields(max_tokens=30, max_completion_tokens=20, min_tokens=6, seed=7, temperature=0.5)
    await Client(stream=True).has(engines, asked)
    again = engines.asked[1]
    assert (again["max_tokens"], again["max_completion_tokens"], again["min_tokens"]) == (26, 16, 2)
    assert (again["seed"], again["temperature"], again["model"]) == (7, 0.5, "m")
    assert again["messages"] == [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Once upon a time"}
    ]  # fmt: skip
    assert again["continue_final_message"] is True
    assert again["add_generation_prompt"] is False


async def test_a_last_message_that_the_client_began_grows() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well,"}]
    going_on = _told([" now"]).continuation(fields(messages=messages, continue_final_message=True), "chat")
    assert going_on is not None
    assert plain(going_on.fields)["messages"] == [messages[0], {"role": "assistant", "content": "Well, now"}]


def _told(pieces: Sequence[str], *more: bytes) -> Transcript:
    transcript = Transcript()
    transcript.keep([_data(chunk(0, {"content": piece})) for piece in pieces] + [_data(each) for each in more])
    return transcript


def _data(sent: bytes) -> bytes:
    return sent.removeprefix(b"data: ").removesuffix(b"\n\n")


@pytest.mark.parametrize(
    "asked",
    [
        {"n": 2},
        {"response_format": {"type": "json_object"}},
        {"structured_outputs": {"regex": "a"}},
        {"tool_choice": "required"},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"stop": ["x", "d!"]},
        {"stop": "x" * 1000},
        {"max_tokens": 2},
        {"messages": [{"role": "assistant", "content": "Mine"}]},
        {
            "messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}]}],
            "continue_final_message": True,
        },
    ],
    ids=str,
)
def test_what_only_the_first_engine_could_end_is_not_continued(asked: dict[str, Any]) -> None:
    assert _told(["Wor", "d"]).continuation(fields(**asked), "chat") is None


@pytest.mark.parametrize(
    "asked",
    [
        {"n": 1, "response_format": {"type": "text"}, "tool_choice": "auto", "stop": None, "logprobs": True},
        {"stop": ["d", "\nUser:", "Wor!"]},
        {"max_tokens": 3, "structured_outputs": None, "echo": False},
    ],
    ids=str,
)
def test_what_binds_no_engine_is_continued(asked: dict[str, Any]) -> None:
    assert _told(["Wor", "d"]).continuation(fields(**asked), "chat") is not None


@pytest.mark.parametrize(
    "last",
    [
        chunk(0, {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{"}}]}),
        chunk(0, {"reasoning_content": "hm"}),
        chunk(0, {"reasoning": "hm"}),
        chunk(0, {}, choices=[{"index": 1, "delta": {"content": "other"}}]),
        chunk(0, {"content": "x" * MAX_BYTES}),
    ],
    ids=["tool call", "reasoning content", "reasoning", "second choice", "too long"],
)
def test_an_answer_that_is_more_than_some_text_is_not_continued(last: bytes) -> None:
    assert _told(["word"], last).continuation(fields(), "chat") is None


def test_raw_thoughts_in_the_text_are_not_continued() -> None:
    assert _told(["<think>", "hm"]).continuation(fields(), "chat") is None


def test_an_answer_that_grew_too_long_is_forgotten_for_good() -> None:
    transcript = _told(["x" * MAX_BYTES])
    transcript.keep([_data(chunk(0, {"content": "y"}))])
    assert transcript.continuation(fields(), "chat") is None


def text_chunk(number: int, text: str, finish: str | None = None) -> bytes:
    head = {"id": f"cmpl-{number}", "object": "text_completion", "created": number, "model": "m"}
    return event(head | {"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def _text(prompt: Any, **more: Any) -> Continuation | None:
    transcript = Transcript()
    transcript.keep([_data(text_chunk(0, each)) for each in ("One", ", two,", " ")])
    asked = {name: value for name, value in fields(prompt=prompt, **more).items() if name != "messages"}
    return transcript.continuation(asked, "completions")


def test_the_prompt_of_a_text_completion_grows_and_its_text_goes_on() -> None:
    going_on = _text("Count: ", max_tokens=10)
    assert going_on is not None
    sent = plain(going_on.fields)
    assert sent == {"model": "m", "prompt": "Count: One, two,", "max_tokens": 8}
    joined = [going_on.edit(_data(text_chunk(1, each))) for each in (" ", "three", "")]
    assert joined[0] is None
    assert joined[2] is None
    assert msgspec.json.decode(joined[1] or b"")["choices"][0]["text"] == "three"
    assert msgspec.json.decode(joined[1] or b"")["id"] == "cmpl-0"


@pytest.mark.parametrize(
    ("prompt", "more"),
    [(["a", "b"], {}), ([1, 2], {}), ("a", {"echo": True}), ("a", {"logprobs": 0}), ("a", {"best_of": 2}),
     ("a", {"suffix": "z"})],
    ids=str,
)  # fmt: skip
def test_text_completions_of_more_than_one_plain_text_are_not_continued(prompt: Any, more: dict[str, Any]) -> None:
    assert _text(prompt, **more) is None


@pytest.mark.parametrize(
    ("comes", "joined"),
    [
        (["\n\nb"], "b"),
        (["\n", "\n", "b"], "b"),
        (["\n", "b"], "b"),
        (["b"], "b"),
        (["\n\n\nb"], "\nb"),
        (["b", "\n\n", "c"], "b\n\nc"),
        ([" b"], " b"),
    ],
    ids=repr,
)
def test_of_the_white_space_that_the_client_has_only_what_is_repeated_is_left_out(
    comes: list[str], joined: str
) -> None:
    going_on = _told(["a", "\n\n"]).continuation(fields(), "chat")
    assert going_on is not None
    edited = [going_on.edit(_data(chunk(1, {"content": each}))) for each in comes]
    texts = [msgspec.json.decode(each)["choices"][0]["delta"]["content"] for each in edited if each]
    assert "".join(texts) == joined


def test_usage_on_every_chunk_goes_on_counting() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11}
    going_on = _told(["a"], chunk(0, {"content": "b"}, usage=usage)).continuation(fields(max_tokens=9), "chat")
    assert going_on is not None
    assert going_on.tokens == 4
    assert plain(going_on.fields)["max_tokens"] == 5
    second = {"prompt_tokens": 12, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 11}}
    told = msgspec.json.decode(going_on.edit(_data(chunk(1, {"content": "c"}, usage=second))) or b"")["usage"]
    assert told == {
        "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 7}
    }  # fmt: skip


async def test_an_engine_that_thinks_instead_of_going_on_is_not_believed() -> None:
    client = Client(stream=True)
    with pytest.raises(EngineBroken):
        await client.take(FakeUpstream(Script([chunk(0, {"content": "a"}), Broken("gone")]), Asked("", b"", {})))
    going_on = client.transcript.continuation(fields(), "chat")
    assert going_on is not None
    thinking = FakeUpstream(Script([chunk(1, {"reasoning_content": "hm"}), DONE]), Asked("", b"", {}))
    with pytest.raises(EngineBroken):
        await client.take(thinking, going_on.edit)
    assert b"hm" not in client.sent
    client.sink.close()


async def test_an_error_of_the_engine_that_goes_on_is_an_error() -> None:
    client = Client(stream=True)
    with pytest.raises(EngineBroken):
        await client.take(FakeUpstream(Script([chunk(0, {"content": "a"})]), Asked("", b"", {})))
    going_on = client.transcript.continuation(fields(), "chat")
    assert going_on is not None
    with pytest.raises(EngineRefused):
        await client.take(FakeUpstream(Script([ERROR]), Asked("", b"", {})), going_on.edit)
    client.sink.close()


async def test_a_finish_that_was_seen_is_the_end_whatever_happens_then() -> None:
    client = Client(stream=True)
    steps = [chunk(0, {"content": "a"}), chunk(0, {}, "stop"), Broken("gone")]
    await client.take(FakeUpstream(Script(steps), Asked("", b"", {})))
    client.sink.close()
    assert client.events[-1] == "[DONE]"


ERROR = event({"error": {"message": "no room", "code": 503}})


@pytest.mark.parametrize(
    ("steps", "error", "cause"),
    [
        ((Broken("x"),), EngineBroken, Broken),
        ((TimedOut("x"),), EngineSilent, TimedOut),
        ((ERROR,), EngineRefused, Rejected),
        ((), EngineBroken, Broken),
        ((b"data: " + b"x" * (17 << 20),), EngineBroken, Broken),
        ((9.0,), EngineSilent, TimedOut),
    ],
    ids=["broken", "timed out", "error event", "cut", "over-long", "stalled"],
)
async def test_what_was_behind_an_error_can_be_told_from_its_cause(
    steps: Sequence[Any], error: type[DoorError], cause: type[BackendError]
) -> None:
    client = Client(stream=True)
    upstream = FakeUpstream(Script([chunk(0, {"content": "a"}), *steps]), Asked("", b"", {}))
    with pytest.raises(error) as raised:
        await pump(
            upstream, client.meter, client.sink, Patience(5.0, 0.05, 5.0), wants_usage=True,
            transcript=client.transcript,
        )  # fmt: skip
    client.sink.close()
    assert isinstance(raised.value.__cause__, cause)
    assert client.text_so_far == "a"


async def test_what_came_with_an_error_in_one_piece_is_passed_on_and_gone_on_with() -> None:
    client = Client(stream=True)
    upstream = FakeUpstream(Script([chunk(0, {"content": "a"}) + ERROR]), Asked("", b"", {}))
    with pytest.raises(EngineRefused):
        await client.take(upstream)
    client.sink.close()
    assert client.text_so_far == "a"
    going_on = client.transcript.continuation(fields(), "chat")
    assert going_on is not None
    assert plain(going_on.fields)["messages"][-1]["content"] == "a"


async def test_the_engine_that_goes_on_has_the_time_of_a_first_token_again() -> None:
    client = Client(stream=True)
    patience = Patience(first_token=5.0, stall=0.05, client=5.0)
    options: dict[str, Any] = {"wants_usage": True, "transcript": client.transcript}
    first = FakeUpstream(Script([chunk(0, {"content": "a"}), 9.0]), Asked("", b"", {}))
    with pytest.raises(EngineSilent):
        await pump(first, client.meter, client.sink, patience, **options)
    going_on = client.transcript.continuation(fields(), "chat")
    assert going_on is not None
    steps = [chunk(1, {"role": "assistant"}), 0.2, chunk(1, {"content": "b"}), chunk(1, {}, "stop"), DONE]
    second = FakeUpstream(Script(steps), Asked("", b"", {}))
    await pump(second, client.meter, client.sink, patience, edit=going_on.edit, **options)
    client.sink.close()
    assert client.text == "ab"


async def test_an_engines_name_for_a_model_is_not_the_clients() -> None:
    client = Client(stream=True)
    said = 'it says "model":"m0"'
    steps = [chunk(0, {"content": said}), chunk(0, {}, "stop"), DONE]
    await client.take(FakeUpstream(Script(steps), Asked("", b"", {})), renamed("m0", "公開"))
    client.sink.close()
    assert {each["model"] for each in client.events[:-1]} == {"公開"}
    assert client.text == said
    assert renamed("same", "same") is None


async def test_a_client_that_does_not_read_is_not_taken_for_an_engine_that_says_nothing() -> None:
    client = Client(stream=True)

    async def stuck(events: list[bytes]) -> None:
        await asyncio.sleep(9)

    client.sink.take = stuck  # type: ignore[method-assign]
    upstream = FakeUpstream(Script([chunk(0, {"content": "a"})]), Asked("", b"", {}))
    with pytest.raises(ClientStalled):
        await pump(
            upstream, client.meter, client.sink, Patience(5.0, 5.0, 0.05), wants_usage=True,
            transcript=client.transcript,
        )  # fmt: skip
    client.sink.close()


async def test_an_answer_that_says_nothing_is_passed_on_as_it_is() -> None:
    client = Client(stream=True)
    await client.take(FakeUpstream(Script([chunk(0, {"role": "assistant"}), DONE]), Asked("", b"", {})))
    client.sink.close()
    assert client.events[0]["choices"][0]["delta"] == {"role": "assistant"}
    assert client.events[1:] == ["[DONE]"]


async def test_the_wait_for_the_engine_does_not_count_against_the_client() -> None:
    client = Client(stream=True)
    take = client.sink.take

    async def slow(events: list[bytes]) -> None:
        await asyncio.sleep(0.3)
        await take(events)

    client.sink.take = slow  # type: ignore[method-assign]
    steps = [1.0, chunk(0, {"content": "a"}), chunk(0, {}, "stop")]
    upstream = FakeUpstream(Script(steps), Asked("", b"", {}))
    await pump(
        upstream, client.meter, client.sink, Patience(5.0, 5.0, 0.4), wants_usage=True, transcript=client.transcript
    )
    client.sink.close()
    assert client.text == "a"
