"""An answer in one piece is read whole and checked before any of it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from backends.errors import BackendError, Broken, Rejected, TimedOut
from backends.fake import Asked, FakeUpstream, Script
from gateway.errors import DoorError, EngineBroken, EngineRefused, EngineSilent
from gateway.scope import RequestScope
from gateway.streaming.edit import renamed
from gateway.streaming.meter import Meter
from gateway.streaming.watch import Patience
from gateway.streaming.whole import send_whole, whole

ANSWER = b'{"object":"list","model":"engine","data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3,"total_tokens":3}}'


async def read(*steps: Any, meter: Meter | None = None, limit: int = 1000, patience: float = 5.0) -> bytes:
    upstream = FakeUpstream(Script(steps), Asked("/v1/embeddings", b"", {}))
    allowed = Patience(patience, patience, patience)
    return await whole(upstream, meter or Meter(), allowed, limit, renamed("engine", "public"))


async def test_the_answer_keeps_its_bytes_but_for_the_models_name() -> None:
    meter = Meter()
    assert await read(ANSWER[:20], ANSWER[20:], meter=meter) == ANSWER.replace(b"engine", b"public")
    assert (meter.prompt_tokens, meter.completion_tokens, meter.began, meter.complete) == (3, 0, True, True)


async def test_an_answer_without_usage_was_read_all_the_same() -> None:
    meter = Meter()
    await read(b'{"data":[]}', meter=meter)
    assert meter.prompt_tokens is None
    assert meter.began


@pytest.mark.parametrize(
    ("steps", "error", "cause"),
    [
        ((ANSWER[:40],), EngineBroken, Broken),
        ((b"",), EngineBroken, Broken),
        ((b"[1]",), EngineBroken, Broken),
        ((b'{"a":"\xe3\x81"}',), EngineBroken, Broken),
        ((ANSWER, Broken("cut")), EngineBroken, Broken),
        ((ANSWER + b" " * 1000,), EngineBroken, Broken),
        ((ANSWER[:40], 9.0), EngineSilent, TimedOut),
        ((9.0,), EngineSilent, TimedOut),
        ((b'{"error":{"message":"no room","code":503}}',), EngineRefused, Rejected),
    ],
    ids=["half", "empty", "list", "not UTF-8", "cut", "over-long", "stalled", "silent", "error"],
)
async def test_what_is_no_answer_is_an_error(
    steps: Sequence[Any], error: type[DoorError], cause: type[BackendError]
) -> None:
    meter = Meter()
    with pytest.raises(error) as raised:
        await read(*steps, meter=meter, patience=0.05)
    assert isinstance(raised.value.__cause__, cause)
    assert not meter.began


async def test_it_is_sent_with_its_length() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any: ...

    request = RequestScope("id", "POST", "/", {}, 0, 0, receive, send, 0.0)
    await send_whole(request, ANSWER)
    assert (b"content-length", str(len(ANSWER)).encode()) in sent[0]["headers"]
    assert sent[1] == {"type": "http.response.body", "body": ANSWER, "more_body": False}
