"""Between the engine's thread and the event loop: sequences over there, outputs back, one hand-over a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from native_engine.engine import EngineLoop, SequenceOutput
from native_engine.request import Sequence

Receiver = Callable[[SequenceOutput], None]


class Delivery:
    """`deliver` is called in the engine's thread, everything else in the event loop."""

    def __init__(self) -> None:
        self._event_loop = asyncio.get_running_loop()
        self._receivers: dict[str, Receiver] = {}
        self._engine_loop: EngineLoop | None = None

    @property
    def num_open(self) -> int:
        """Sequences that have not had their last output."""
        return len(self._receivers)

    def connect(self, engine_loop: EngineLoop) -> None:
        self._engine_loop = engine_loop

    @property
    def engine(self) -> EngineLoop:
        if self._engine_loop is None:
            raise RuntimeError("delivery is not connected to an engine")
        return self._engine_loop

    def submit(self, sequence: Sequence, receiver: Receiver) -> None:
        """Raises what `EngineLoop.submit` raises; then the receiver hears nothing."""
        self.engine.submit(sequence)
        self._receivers[sequence.request_id] = receiver

    def abort(self, sequence_id: str) -> None:
        """The receiver hears nothing more; the engine frees the blocks before its next step."""
        if self._receivers.pop(sequence_id, None) is not None:
            self.engine.abort(sequence_id)

    def deliver(self, outputs: list[SequenceOutput]) -> None:
        self._event_loop.call_soon_threadsafe(self._distribute, outputs)

    def _distribute(self, outputs: list[SequenceOutput]) -> None:
        for output in outputs:
            receiver = self._receivers.get(output.request_id)
            if receiver is None:
                continue
            if output.finish_reason is not None:
                del self._receivers[output.request_id]
            receiver(output)
