"""A server on a real engine whose arithmetic is a script, driven through ASGI without a socket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from backends.wire.sse import EventParser
from native_engine.batch import ScheduledBatch
from native_engine.block_manager import BlockManager
from native_engine.engine import Engine, EngineLoop
from native_engine.host_tier import Copy
from native_engine.loading.chat_template import ChatTemplate
from native_engine.loading.tokenizer import Tokenizer, load_tokenizer
from native_engine.sampling.sampler import Sampler
from native_engine.scheduler import Scheduler
from native_engine.server.app import App
from native_engine.server.delivery import Delivery
from native_engine.server.service import ModelInfo, Service
from tests.native_engine.tiny_model import TEMPLATE, TURN_END, vocabulary, write_gguf

MODEL = "tiny"
CONTEXT = 256


class ScriptedRunner:
    """Wants to say the script, one token a step, then to end the turn. With `gated` each step waits for `release`.

    Every other token has the logit 0, the wanted one 50: whoever may choose freely chooses it.
    """

    num_blocks = 64
    num_host_blocks = 0
    max_model_len = CONTEXT
    window = None

    def __init__(self) -> None:
        self.script: list[int] = []
        self.fail_after: int | None = None
        self.gate = threading.Semaphore(0)
        self.gated = False
        self.steps = 0
        self.sampler = Sampler(seed=0)

    def copy(self, copies: list[Copy]) -> None:
        raise AssertionError("there is no host tier")

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        if self.gated:
            self.gate.acquire(timeout=10)
        self.steps += 1
        if self.fail_after is not None and self.steps > self.fail_after:
            raise RuntimeError("the arithmetic failed, as the test wanted")
        wanted = [self._next(each.sequence.num_output_tokens) for each in batch.items for _ in range(each.num_logits)]
        logits = torch.zeros(len(wanted), len(vocabulary()))
        logits[range(len(wanted)), wanted] = 50.0
        return self.sampler.sample(logits, wanted, batch.items)

    def _next(self, position: int) -> int:
        return self.script[position] if position < len(self.script) else TURN_END


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        found = EventParser().feed(self.body)
        return [event.data.decode() if event.is_done else json.loads(event.data) for event in found]

    @property
    def deltas(self) -> list[str]:
        """The pieces of text of a chat stream."""
        choices = [event["choices"][0] for event in self.events if event != "[DONE]" and event.get("choices")]
        return [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]


class Client:
    """Calls the application as a server would."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def get(self, path: str) -> Answer:
        return await self.request("GET", path, b"")

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Answer:
        return await self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

    async def chat(self, content: str = "hello", **fields: Any) -> Answer:
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}
        return await self.post("/v1/chat/completions", body)

    async def request(self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> Answer:
        answer, _ = self.open(method, path, body, headers)
        return await asyncio.wait_for(answer, 10)

    def open(
        self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None
    ) -> tuple[asyncio.Task[Answer], Callable[[], None]]:
        """The request under way, and how its client leaves."""
        left = asyncio.Event()
        answer = Answer()
        inbox: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if inbox:
                return inbox.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {key.decode(): value.decode() for key, value in message["headers"]}
            else:
                answer.parts.append(message["body"])
                answer.complete = not message.get("more_body", False)

        pairs = [(key.encode(), value.encode()) for key, value in (headers or {}).items()]
        scope = {"type": "http", "method": method, "path": path, "headers": pairs}

        async def run() -> Answer:
            await self._app(scope, receive, send)
            return answer

        return asyncio.ensure_future(run()), left.set


@dataclass
class Bench:
    client: Client
    runner: ScriptedRunner
    service: Service
    engine: Engine
    app: App

    def say(self, text: str) -> None:
        """What the model will answer from now on."""
        self.runner.script = self.service.tokenizer.encode(text, add_special=False)

    async def idle(self) -> None:
        """Until the engine has nothing left to do."""
        await self.until(lambda: not (self.engine.scheduler.has_work or self.service.delivery.num_open))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.002)


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def tokenizer(tiny_gguf: Path) -> Tokenizer:
    return load_tokenizer(tiny_gguf)


@pytest.fixture
async def bench(tokenizer: Tokenizer) -> AsyncIterator[Bench]:
    runner = ScriptedRunner()
    engine = Engine(runner, Scheduler(BlockManager(runner.num_blocks, 16, True), 8, 64, CONTEXT))
    delivery = Delivery()
    loop = EngineLoop(engine, delivery.deliver)
    delivery.connect(loop)
    service = Service(ModelInfo(MODEL, CONTEXT), tokenizer, ChatTemplate(TEMPLATE), delivery)
    loop.start()
    app = App(service)
    yield Bench(Client(app), runner, service, engine, app)
    runner.gated = False
    runner.gate.release(1000)
    await service.drain(0)
