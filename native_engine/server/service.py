"""What every handler needs of a loaded model, in one object made once. Knows no HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from native_engine.embedder import Embedder, EmbedderStats
from native_engine.engine import Stats
from native_engine.loading.chat_template import ChatTemplate
from native_engine.loading.text_encoder import TextEncoder
from native_engine.loading.tokenizer import Tokenizer
from native_engine.server.accounts import Accounts
from native_engine.server.delivery import Delivery
from native_engine.server.metrics import Metrics
from native_engine.structured.compiler import Compiler
from native_engine.text.answer_style import AnswerStyle, answer_style

if TYPE_CHECKING:
    from backends.telemetry.tracing import Tracing

# Longer texts are tokenised in a thread: at about 2 us a character the event loop would stutter for other streams.
_LONG = 4096

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ModelInfo:
    """`max_model_len` counts prompt and output together; of embeddings, one input."""

    name: str
    max_model_len: int
    task: Literal["generate", "embed"] = "generate"
    created: int = field(default_factory=lambda: int(time.time()))


class Worker(Protocol):
    """The thread that computes."""

    @property
    def is_running(self) -> bool: ...

    def start(self) -> None: ...

    def stats(self) -> Stats | EmbedderStats: ...

    def shutdown(self, timeout: float) -> None: ...


class BaseService:
    """A model that answers, whatever it makes."""

    def __init__(self, info: ModelInfo, worker: Worker) -> None:
        self.info = info
        self.worker = worker
        self.metrics = Metrics()
        self.accounts = Accounts(self.metrics)
        self.tracing: Tracing | None = None  # whoever starts the server sets it
        self.draining = False
        # One thread: long prompts wait for each other, and leave the cores to the model.
        self.long_texts = ThreadPoolExecutor(1, "tokenizer")

    @property
    def ready(self) -> bool:
        return not self.draining and self.worker.is_running

    async def in_turn(self, length: int, work: Callable[[], _Result]) -> _Result:
        """Beside the event loop where the work is long, by the number of characters or numbers."""
        if length < _LONG:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.long_texts, work)

    async def drain(self, limit: float) -> None:
        """Takes nothing new; what runs may finish within `limit` seconds, then it is aborted."""
        self.draining = True
        await asyncio.to_thread(self.worker.shutdown, limit)
        self.long_texts.shutdown(wait=False, cancel_futures=True)


class EmbeddingService(BaseService):
    """A model that makes embeddings."""

    def __init__(self, name: str, embedder: Embedder, texts: TextEncoder) -> None:
        super().__init__(ModelInfo(name, embedder.encoder.max_model_len, "embed"), embedder)
        self.embedder = embedder
        self.texts = texts


class Service(BaseService):
    """A model that generates."""

    def __init__(
        self, info: ModelInfo, tokenizer: Tokenizer, template: ChatTemplate | None, delivery: Delivery
    ) -> None:
        super().__init__(info, delivery.engine)
        self.tokenizer = tokenizer
        self.template = template
        self.delivery = delivery
        self.grammars = Compiler(tokenizer)

    @property
    def style(self) -> AnswerStyle:
        return _style(self.template.source if self.template else "", self.tokenizer)


@lru_cache(4)
def _style(template: str, tokenizer: Tokenizer) -> AnswerStyle:
    return answer_style(template, tokenizer.added_ids)
