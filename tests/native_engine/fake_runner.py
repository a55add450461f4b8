"""A runner without a model: the next token is a hash of all tokens before it, read through a pretended KV cache."""

from __future__ import annotations

from zlib import crc32

from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.block_manager import BlockManager
from native_engine.host_tier import Copy, HostTier
from native_engine.request import SamplingParams, Sequence
from native_engine.scheduler import Scheduler

VOCAB_SIZE = 50
END = 0


def next_token(tokens: list[int]) -> int:
    return crc32(bytes(tokens)) % VOCAB_SIZE


def expected_output(prompt: list[int], num_tokens: int, stop_ids: frozenset[int] = frozenset()) -> list[int]:
    tokens = list(prompt)
    while len(tokens) - len(prompt) < num_tokens:
        tokens.append(next_token(tokens))
        if tokens[-1] in stop_ids:
            break
    return tokens[len(prompt) :]


class FakeRunner:
    """Writes each token into its slot, all items first as the contract says, then reads sequences back: their windows.

    What it makes of them hangs on all tokens, so that a wrong one shows, whatever a model would see.
    """

    def __init__(
        self,
        num_blocks: int,
        max_model_len: int = 4096,
        block_size: int = 16,
        num_host_blocks: int = 0,
        window: int | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.max_model_len = max_model_len
        self.block_size = block_size
        self.num_host_blocks = num_host_blocks
        self.window = window
        self.cache: list[int | None] = [None] * (num_blocks * block_size)
        self.host: list[int | None] = [None] * (num_host_blocks * block_size)
        self.batches: list[ScheduledBatch] = []

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        self.store(batch)
        return [self.tokens_of(item) for item in batch.items if item.samples]

    def tokens_of(self, item: ScheduledSequence) -> list[int]:
        tokens, end = self.read(item.sequence), item.sequence.num_tokens
        new = [self.next_token(tokens)]
        for place, draft in enumerate(item.drafts):
            assert self.cache[self._slot(item.sequence, end + place)] == draft
            if new[-1] != draft:
                break
            new.append(self.next_token([*tokens, *new]))
        return new

    def next_token(self, tokens: list[int]) -> int:
        return next_token(tokens)

    def copy(self, copies: list[Copy]) -> None:
        for device, host, to_host in copies:
            here, there = (slice(block * self.block_size, (block + 1) * self.block_size) for block in (device, host))
            if to_host:
                self.host[there] = self.cache[here]
            else:
                self.cache[here] = self.host[there]

    def store(self, batch: ScheduledBatch) -> None:
        self.batches.append(batch)
        for item in batch.items:
            start = item.sequence.num_computed_tokens
            tokens = [*item.sequence.token_ids[start : start + item.num_new_tokens], *item.drafts]
            for position, token in enumerate(tokens, start):
                self.cache[self._slot(item.sequence, position)] = token

    def read(self, sequence: Sequence) -> list[int]:
        seen = range(max(0, sequence.num_tokens - (self.window or sequence.num_tokens)), sequence.num_tokens)
        tokens = [self.cache[self._slot(sequence, position)] for position in seen]
        assert tokens == sequence.token_ids[seen.start :], f"the cache of {sequence!r} holds other tokens than it has"
        return sequence.token_ids

    def _slot(self, sequence: Sequence, position: int) -> int:
        block = sequence.block_table[position // self.block_size]
        assert block >= 0, f"{sequence!r} reads or writes a block that was given back"
        return block * self.block_size + position % self.block_size


def make_sequence(
    request_id: str = "a",
    prompt: list[int] | int = 5,
    max_tokens: int | None = 8,
    *,
    salt: bytes = b"",
    eos: frozenset[int] = frozenset(),
    min_tokens: int = 0,
    ignore_eos: bool = False,
    priority: int = 0,
) -> Sequence:
    tokens = list(range(1, prompt + 1)) if isinstance(prompt, int) else prompt
    params = SamplingParams(max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=ignore_eos)
    return Sequence(
        request_id, [t % 256 for t in tokens], params, eos_token_ids=eos, cache_salt=salt, priority=priority
    )


def make_scheduler(
    num_blocks: int = 64,
    max_num_seqs: int = 8,
    max_num_batched_tokens: int = 64,
    max_model_len: int = 4096,
    *,
    caching: bool = True,
    num_speculative_tokens: int = 0,
    num_host_blocks: int = 0,
    window: int | None = None,
) -> Scheduler:
    tier = HostTier(num_host_blocks) if num_host_blocks else None
    return Scheduler(
        BlockManager(num_blocks, 16, caching, tier, window),
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
        num_speculative_tokens=num_speculative_tokens,
    )
