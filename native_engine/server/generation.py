"""One request under way: the outputs of its sequences in, pieces of text out, an abort from every state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence as ListLike
from typing import NamedTuple

from backends.wire.responses import Usage
from native_engine.engine import EngineStopped, SequenceOutput
from native_engine.request import Preemption, Sequence, Stages, stages_of
from native_engine.server.delivery import Delivery
from native_engine.server.metrics import Metrics
from native_engine.text.choice import Choice
from native_engine.text.logprobs import TokenLogprobs
from native_engine.text.tool_calls import CallPiece


class Piece(NamedTuple):
    """What one step brought to one choice: `finish_reason` is set on its last piece only."""

    choice: Choice
    text: str
    logprobs: list[TokenLogprobs]
    calls: list[CallPiece]
    thought: str
    finish_reason: str | None


class Generation:
    """Lives in the event loop. `next` gives what has come since it was last asked, and waits if that is nothing."""

    def __init__(
        self,
        delivery: Delivery,
        metrics: Metrics,
        choices: ListLike[Choice],
        arrived: float,
        answers_each: int = 1,
    ) -> None:
        """`arrived`: when the request came in, by `time.perf_counter`. `answers_each`: choices that share a prompt."""
        self._delivery = delivery
        self._metrics = metrics
        self._open = {choice.sequence_id: choice for choice in choices}
        self._last_output = dict.fromkeys(self._open, arrived)
        self._pending: list[Piece] = []
        self._waiter: asyncio.Future[None] | None = None
        self._arrived = arrived
        self.answers_each = answers_each
        self._sequences: ListLike[Sequence] = ()
        self._ended_at: float | None = None
        self.choices = choices
        self.cancelled = False

    def start(self, sequences: ListLike[Sequence]) -> None:
        """All of them or, where one is refused, none."""
        submitted: list[str] = []
        for sequence in sequences:
            try:
                self._delivery.submit(sequence, self._receive)
            except (ValueError, EngineStopped):
                for sequence_id in submitted:
                    self._delivery.abort(sequence_id)
                self._open.clear()
                raise
            submitted.append(sequence.request_id)
        self._sequences = sequences

    @property
    def done(self) -> bool:
        """No output is to come; after `next` returned also: none is left."""
        return not self._open

    @property
    def state(self) -> str:
        """As operators know it: waiting, running; then finished, aborted or failed."""
        if self._open:
            return "running" if any(sequence.admitted for sequence in self._sequences) else "waiting"
        reasons = {choice.finish_reason for choice in self.choices}
        if "error" in reasons:
            return "failed"
        return "aborted" if "abort" in reasons else "finished"

    @property
    def usage(self) -> Usage:
        """Each prompt counts once, however many answers are made to it, and not at all while none has begun."""
        prompt_tokens = cached_tokens = 0
        for start in range(0, len(self._sequences), self.answers_each):
            same_prompt = self._sequences[start : start + self.answers_each]
            first = next((sequence for sequence in same_prompt if sequence.admitted), None)
            if first is not None:
                prompt_tokens += first.num_prompt_tokens
                cached_tokens += first.num_cached_tokens
        thoughts = [choice.num_thought_tokens for choice in self.choices if choice.num_thought_tokens is not None]
        return Usage(
            prompt_tokens,
            sum(choice.num_tokens for choice in self.choices),
            cached_tokens,
            sum(thoughts) if thoughts else None,
        )

    @property
    def stages(self) -> Stages | None:
        if not self._sequences:
            return None
        return stages_of(self._sequences, time.monotonic() if self._ended_at is None else self._ended_at)

    @property
    def queued_at(self) -> float:
        """Monotonic seconds. Of one that was started."""
        return min(sequence.queued_at for sequence in self._sequences)

    @property
    def preemptions(self) -> ListLike[Preemption]:
        return [each for sequence in self._sequences for each in sequence.preemptions]

    @property
    def finish_reasons(self) -> ListLike[str]:
        return [choice.finish_reason for choice in self.choices if choice.finish_reason is not None]

    def first_of(self, choice: Choice) -> Sequence:
        """The first of the sequences that have this choice's prompt."""
        return self._sequences[choice.index - choice.index % self.answers_each]

    async def next(self) -> list[Piece]:
        """Empty only when the request was cancelled."""
        if not self._pending and self._open:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        pieces, self._pending = self._pending, []
        return pieces

    def cancel(self) -> None:
        """The client left, or its answer cannot be sent: nothing more is computed for it. Harmless at the end."""
        if not self._open:
            return
        self.cancelled = True
        self._pending.clear()
        for choice in list(self._open.values()):
            choice.finish_reason = "abort"
            self._close(choice, still_running=True)
        self._wake()

    def _receive(self, output: SequenceOutput) -> None:
        choice = self._open[output.request_id]
        if output.new_token_ids:
            self._observe(choice)
        taken = choice.take(output)
        if choice.finish_reason is not None:
            self._close(choice, still_running=output.finish_reason is None)
        self._pending.append(Piece(choice, *taken, choice.finish_reason))
        self._wake()

    def _close(self, choice: Choice, *, still_running: bool) -> None:
        del self._open[choice.sequence_id]
        if still_running:
            self._delivery.abort(choice.sequence_id)
        self._metrics.finished[choice.finish_reason or "abort"] += 1
        self._metrics.spend(stages_of([self._sequences[choice.index]], time.monotonic()))
        if not self._open:
            self._ended_at = time.monotonic()
            self._metrics.latency.observe(time.perf_counter() - self._arrived)

    def _observe(self, choice: Choice) -> None:
        now = time.perf_counter()
        histogram = self._metrics.inter_token if choice.num_tokens else self._metrics.first_token
        histogram.observe(now - self._last_output[choice.sequence_id])
        self._last_output[choice.sequence_id] = now

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
