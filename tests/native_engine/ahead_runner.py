"""The fake runner with a device: what is launched is computed as late as can be, in order, from what was told then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from native_engine.batch import UNKNOWN, ScheduledBatch, ScheduledSequence
from native_engine.host_tier import Copy
from tests.native_engine.fake_runner import VOCAB_SIZE, FakeRunner

GARBAGE = VOCAB_SIZE + 1  # no sequence ever holds this token


class LaunchedItem:
    """What a device knows of an item: a copy, made at the launch."""

    def __init__(self, item: ScheduledSequence) -> None:
        self.item = item
        self.request_id = item.sequence.request_id
        self.start = item.sequence.num_computed_tokens
        self.end = self.start + item.num_new_tokens
        self.tokens = list(item.sequence.token_ids[: self.end])
        self.table = list(item.sequence.block_table)
        self.follows = item.follows
        assert (self.tokens[-1] == UNKNOWN) == (self.follows is not None)
        assert UNKNOWN not in self.tokens[:-1]


class FakeStep:
    """A step on the device. One that fails leaves garbage, and so does one that was launched behind it."""

    def __init__(self, runner: AheadFake, batch: ScheduledBatch, before: FakeStep | None) -> None:
        self.runner = runner
        self.batch = batch
        self.before = before
        self.items = [LaunchedItem(item) for item in batch.items]
        self.on_device = not any(runner.needs_host(item) for item in batch.items)
        self.fails = any(runner.breaks(item) for item in batch.items)
        self.chosen: list[int] | None = None  # on the device, by each item that samples; None until it is computed
        self.is_garbage = False
        self.done = 0.0  # when, by a test's clock

    def compute(self) -> None:
        self.is_garbage = self.fails or (self.before is not None and self.before.is_garbage)
        for each in self.items:
            if each.follows is not None:
                each.tokens[-1] = self._chosen_before(each)
            drafts = list(each.item.drafts)
            for position, token in enumerate([*each.tokens[each.start :], *drafts], each.start):
                self.runner.cache[self._slot(each, position)] = GARBAGE if self.is_garbage else token
        sampled = [each for each in self.items if each.item.samples]
        self.chosen = [GARBAGE if self.is_garbage else self._next(each) for each in sampled]
        self.before = None

    def tokens(self) -> list[list[int]]:
        with self.runner.noting_faults():
            self.runner.drain(self)
        if self.fails:
            self.runner.last = None
            raise RuntimeError("the device failed")
        with self.runner.noting_faults():
            return self._tell()

    def _tell(self) -> list[list[int]]:
        assert self.chosen is not None
        assert not self.is_garbage, "nobody asks what came of a step that followed a failed one"
        for each in self.items:
            sequence, size = each.item.sequence, self.runner.block_size
            seen = range(self._first_seen(each) // size, -(-each.end // size))
            held = sequence.block_table[seen.start : seen.stop]
            assert held == each.table[seen.start : seen.stop], f"{sequence!r} lost blocks that were in use"
            assert sequence.num_computed_tokens == each.start
            assert UNKNOWN not in sequence.token_ids
        if self.on_device:
            return [[token] for token in self.chosen]
        return [self.runner.tokens_of(item) for item in self.batch.items if item.samples]

    def _chosen_before(self, each: LaunchedItem) -> int:
        assert self.before is not None
        assert self.before.on_device
        assert self.before.chosen is not None
        assert each.follows is not None
        sampled = [item for item in self.before.items if item.item.samples]
        assert sampled[each.follows].request_id == each.request_id, "the token of somebody else"
        return self.before.chosen[each.follows]

    def _next(self, each: LaunchedItem) -> int:
        seen = range(self._first_seen(each), each.end)
        cached = [self.runner.cache[self._slot(each, position)] for position in seen]
        assert cached == each.tokens[seen.start :], f"the cache of {each.request_id} holds other tokens than it has"
        return self.runner.next_token(each.tokens)

    def _first_seen(self, each: LaunchedItem) -> int:
        window = self.runner.window
        return 0 if window is None else max(0, each.start + 1 - window)

    def _slot(self, each: LaunchedItem, position: int) -> int:
        block = each.table[position // self.runner.block_size]
        assert block >= 0, f"{each.request_id} reads or writes a block that was given back"
        return block * self.runner.block_size + position % self.runner.block_size


class AheadFake(FakeRunner):
    """`poison`: by request, the position at which it cannot be computed; `hosts`: requests whose tokens the host
    chooses. `refuses`: a launch says so at once, not the device later.
    """

    def __init__(
        self,
        num_blocks: int,
        num_host_blocks: int = 0,
        window: int | None = None,
        *,
        poison: dict[str, int] | None = None,
        hosts: frozenset[str] = frozenset(),
        refuses: bool = False,
    ) -> None:
        super().__init__(num_blocks, num_host_blocks=num_host_blocks, window=window)
        self.runs_ahead = True
        self.poison = poison or {}
        self.hosts = hosts
        self.refuses = refuses
        self.queue: deque[FakeStep | Callable[[], None]] = deque()
        self.last: FakeStep | None = None
        self.num_followers = 0
        self.faults: list[str] = []  # a test wants none

    def launch(self, batch: ScheduledBatch) -> FakeStep:
        with self.noting_faults():
            step = FakeStep(self, batch, self.last)
        if self.refuses and step.fails:
            raise RuntimeError("cannot be launched")
        self.batches.append(batch)
        self.num_followers += any(item.follows is not None for item in batch.items)
        self.last = step
        self.queue.append(step)
        return step

    def copy(self, copies: list[Copy]) -> None:
        self.queue.append(lambda: super(AheadFake, self).copy(copies))

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        with self.noting_faults():
            self.drain()
            self.last = None
            for item in batch.items:
                assert UNKNOWN not in item.sequence.token_ids
                assert item.follows is None
                if self.breaks(item):
                    self.store(ScheduledBatch(batch.items[: batch.items.index(item)]))
                    raise RuntimeError("poison")
            return super().execute(batch)

    @contextmanager
    def noting_faults(self) -> Iterator[None]:
        """What must not be would otherwise look like a device that fails, and be got over."""
        try:
            yield
        except AssertionError as fault:
            self.faults.append(str(fault))
            raise

    def drain(self, last: FakeStep | None = None) -> None:
        """Up to the end of this step, or of all."""
        while self.queue and not (last and last.chosen is not None):
            work = self.queue.popleft()
            if isinstance(work, FakeStep):
                work.compute()
            else:
                work()

    def breaks(self, item: ScheduledSequence) -> bool:
        at = self.poison.get(item.sequence.request_id, 10**6)
        return item.sequence.num_computed_tokens + item.num_new_tokens > at

    def needs_host(self, item: ScheduledSequence) -> bool:
        return bool(item.drafts) or (item.samples and item.sequence.request_id in self.hosts)
