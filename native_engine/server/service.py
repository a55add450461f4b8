"""What every handler needs of a loaded model, in one object made once. Knows no HTTP."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from native_engine.loading.chat_template import ChatTemplate
from native_engine.loading.tokenizer import Tokenizer
from native_engine.server.accounts import Accounts
from native_engine.server.delivery import Delivery
from native_engine.server.metrics import Metrics
from native_engine.structured.compiler import Compiler


@dataclass(frozen=True)
class ModelInfo:
    """`max_model_len` counts prompt and output together."""

    name: str
    max_model_len: int
    created: int = field(default_factory=lambda: int(time.time()))


class Service:
    """A model that answers."""

    def __init__(
        self, info: ModelInfo, tokenizer: Tokenizer, template: ChatTemplate | None, delivery: Delivery
    ) -> None:
        self.info = info
        self.tokenizer = tokenizer
        self.template = template
        self.delivery = delivery
        self.grammars = Compiler(tokenizer)
        self.metrics = Metrics()
        self.accounts = Accounts(self.metrics)
        self.draining = False
        # One thread: long prompts wait for each other, and leave the cores to the model.
        self.long_texts = ThreadPoolExecutor(1, "tokenizer")

    @property
    def ready(self) -> bool:
        return not self.draining and self.delivery.engine.is_running

    async def drain(self, limit: float) -> None:
        """Takes nothing new; what runs may finish within `limit` seconds, then it is aborted."""
        self.draining = True
        await asyncio.to_thread(self.delivery.engine.shutdown, limit)
        self.long_texts.shutdown(wait=False, cancel_futures=True)
