"""Ten thousand quick requests leave nothing behind."""

from __future__ import annotations

import gc
import threading
import tracemalloc

from native_engine.engine import Engine, EngineLoop, SequenceOutput
from native_engine.request import FinishReason, Sequence
from tests.native_engine.fake_runner import FakeRunner, make_scheduler, make_sequence

REQUESTS = 10_000
AT_ONCE = 500


class ForgetfulRunner(FakeRunner):
    """Keeps no batch, and does not look at what it has stored."""

    def read(self, sequence: Sequence) -> list[int]:
        self.batches.clear()
        return sequence.token_ids


def test_ten_thousand_quick_requests_leave_the_engine_as_it_was() -> None:
    engine = Engine(ForgetfulRunner(256), make_scheduler(256, max_num_seqs=64, max_num_batched_tokens=512))
    done = threading.Semaphore(0)
    ends: dict[FinishReason, int] = {}

    def receive(outputs: list[SequenceOutput]) -> None:
        for output in outputs:
            if output.finish_reason is not None:
                ends[output.finish_reason] = ends.get(output.finish_reason, 0) + 1
                done.release()

    loop = EngineLoop(engine, receive)
    loop.start()

    def play(first: int, end: int) -> None:
        for number in range(first, end):
            prompt = [number % 251, number % 13, 7] * (1 + number % 9)
            loop.submit(
                make_sequence(str(number), prompt, 1 + number % 3, salt=b"%d" % (number % 5), priority=number % 3)
            )
            if number % 7 == 0:
                loop.abort(str(number))
        for _ in range(first, end):
            assert done.acquire(timeout=30)

    tracemalloc.start()
    try:
        held = []
        for first in range(0, REQUESTS, AT_ONCE):
            play(first, first + AT_ONCE)
            if first in (2 * AT_ONCE, REQUESTS - AT_ONCE):
                gc.collect()
                held.append(
                    (tracemalloc.get_traced_memory()[0], sum(type(each) is Sequence for each in gc.get_objects()))
                )
    finally:
        tracemalloc.stop()
        loop.shutdown(10)
    (early, _), (late, sequences) = held
    assert late - early < 64 * 1024, f"{late - early} bytes more after {REQUESTS} requests"
    assert sequences <= 64, "requests that have ended are kept"
    assert sum(ends.values()) == REQUESTS
    assert set(ends) == {FinishReason.LENGTH, FinishReason.ABORT}
    scheduler = engine.scheduler
    assert scheduler.live == scheduler.running == scheduler.waiting == []
    assert loop._accepted == set()
    assert scheduler.blocks.num_used == 0
    assert scheduler.blocks.check_integrity([]) == []
