"""Who owns which KV block: lend, share by content, evict, take back. Knows no model, no tensors and no scheduling.

A full block is addressed by a hash chained over the salt of its tenant and every token up to its end, so that equal
prefixes of one tenant share blocks and no tenant ever meets another's. Tables only grow and only full blocks are
shared, so nobody writes into a shared block and nothing has to be copied on write.

With a host tier, the content of a free block moves there when the block is lent to somebody else, and comes back into
the next best block when it is asked for.

Where every layer of a model sees only a window, what lies behind it is given back while the sequence runs, and a cached
prefix is one whose end is there. Where some layers see everything (Gemma 3) all blocks stay: a block holds the tokens
of all layers, and tables of their own for a few layers would save memory at the price of a second one of everything
here. A prompt's blocks are lent at once in either case, so that who is let in never waits half-way.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from native_engine.host_tier import Copy, HostTier
from native_engine.request import Sequence

GIVEN_BACK = -1  # in a block table


class BlockManager:
    """Blocks 0 to num_blocks - 1. One is free when nobody refers to it; it keeps its content until lent again.

    `window`: how many tokens, itself among them, a token sees in the layer that sees most; None: all.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int = 16,
        enable_prefix_caching: bool = True,
        host_tier: HostTier | None = None,
        window: int | None = None,
    ) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"num_blocks and block_size must be at least 1, got {num_blocks} and {block_size}")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.enable_prefix_caching = enable_prefix_caching
        self.host_tier = host_tier
        self.window = window
        self._references = [0] * num_blocks
        self._hash_of: list[bytes | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}
        # Next to be lent first: blocks without content, then the least recently used.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))

    @property
    def num_slots(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_blocks - len(self._free)

    @property
    def usage(self) -> float:
        return self.num_used / self.num_blocks

    def allocate(self, sequence: Sequence, reserve: int = 0) -> bool:
        """Lends blocks for every token that the sequence has, cached prefix first, and leaves `reserve` blocks free.

        Sets `block_table` and `num_computed_tokens`, or returns False and changes nothing.
        """
        hits = self._cached_prefix(sequence)
        if not self._has_room(sequence, hits, reserve, {}):
            return False
        sequence.first_block = hits.count(GIVEN_BACK)
        for block in hits[sequence.first_block :]:
            if block is not None:
                self._share(block)
        fetched = iter(self._fetch([sequence.block_hashes[place] for place, block in enumerate(hits) if block is None]))
        sequence.block_table = [next(fetched) if block is None else block for block in hits]
        sequence.block_table += [self._take() for _ in range(self._num_blocks(sequence) - len(hits))]
        sequence.num_computed_tokens = len(hits) * self.block_size
        return True

    def fits(self, sequence: Sequence, reserve: int = 0, without: Iterable[Sequence] = ()) -> bool:
        """Whether `allocate` would lend to it once the sequences of `without` have given their blocks back."""
        held = Counter(block for other in without for block in _held(other))
        return self._has_room(sequence, self._cached_prefix(sequence), reserve, held)

    def append_block(self, sequence: Sequence) -> bool:
        """Lends one more block, or returns False where none is free."""
        if not self._free:
            return False
        sequence.block_table.append(self._take())
        return True

    def slide(self, sequence: Sequence) -> None:
        """Takes back what none of the sequence's coming tokens sees."""
        first = self._first_seen(sequence.num_computed_tokens)
        for index in range(sequence.first_block, first):
            self._release(sequence.block_table[index])
            sequence.block_table[index] = GIVEN_BACK
        sequence.first_block = max(first, sequence.first_block)

    def publish(self, sequence: Sequence, num_tokens: int) -> None:
        """Lets others find the blocks that fill as `sequence` goes from its computed tokens to `num_tokens`."""
        first, end = sequence.num_computed_tokens // self.block_size, num_tokens // self.block_size
        if first == end or not self.enable_prefix_caching:
            return
        self._extend_hashes(sequence, end)
        for block, digest in zip(sequence.block_table[first:end], sequence.block_hashes[first:end], strict=True):
            if digest not in self._block_of:  # where two computed the same at once, the first copy serves
                self._name(block, digest)

    def forget(self, sequence: Sequence) -> None:
        """Hides the sequence's blocks from later requests: what is in them is not to be trusted."""
        for block in _held(sequence):
            self._drop_hash(block)

    def free(self, sequence: Sequence) -> None:
        """Takes the sequence's blocks back, last first, so that the head of a prefix outlives its tail."""
        for block in reversed(_held(sequence)):
            self._release(block)
        sequence.block_table = []
        sequence.first_block = 0

    def take_copies(self) -> list[Copy]:
        """Between cache and host tier: to be made, in their order, before the step that was scheduled last."""
        return self.host_tier.take_copies() if self.host_tier else []

    def check_integrity(self, sequences: Iterable[Sequence]) -> list[str]:
        """Every broken invariant, given all sequences that hold blocks; empty when all is well."""
        tier = self.host_tier.faults() if self.host_tier else []
        return [*self._reference_faults(sequences), *self._hash_faults(), *tier]

    def _num_blocks(self, sequence: Sequence) -> int:
        return -(-len(sequence.token_ids) // self.block_size)

    def _has_room(self, sequence: Sequence, hits: list[int | None], reserve: int, held: Mapping[int, int]) -> bool:
        """`held`: references that are about to go. A hit that nobody else refers to has to leave the free ones too."""
        needed = [block for block in hits if block is not None and block != GIVEN_BACK]
        idle_hits = sum(self._references[block] == held.get(block, 0) for block in needed)
        released = sum(self._references[block] == count for block, count in held.items())
        missing = self._num_blocks(sequence) - len(hits) + hits.count(None)
        return missing + idle_hits + reserve <= len(self._free) + released

    def _cached_prefix(self, sequence: Sequence) -> list[int | None]:
        """Blocks that hold the beginning; None for one that is in the host tier."""
        if sequence.wants_prompt_logprobs:  # the cache holds no logits
            return []
        if not self.enable_prefix_caching:
            return []
        # Never all tokens: the last one must be computed, for its logits.
        end = (len(sequence.token_ids) - 1) // self.block_size
        self._extend_hashes(sequence, end)
        hits: list[int | None] = []
        best = unbroken = 0  # blocks: of the longest prefix whose end is there, and of those in a row up to here
        for digest in sequence.block_hashes[:end]:
            block = self._block_of.get(digest)
            is_there = block is not None or (self.host_tier is not None and digest in self.host_tier)
            if not is_there and self.window is None:
                break
            hits.append(block)
            unbroken = unbroken + 1 if is_there else 0
            if unbroken and unbroken >= len(hits) - self._first_seen(len(hits) * self.block_size):
                best = len(hits)
        first = self._first_seen(best * self.block_size)
        return [GIVEN_BACK] * first + hits[first:best]

    def _first_seen(self, position: int) -> int:
        """The first block that the token at `position` sees."""
        return 0 if self.window is None else max(0, position + 1 - self.window) // self.block_size

    def _extend_hashes(self, sequence: Sequence, end: int) -> None:
        hashes, tokens, size = sequence.block_hashes, sequence.token_ids, self.block_size
        if len(hashes) >= end:
            return
        parent = hashes[-1] if hashes else sha256(b"salt:" + sequence.cache_salt).digest()
        for start in range(len(hashes) * size, end * size, size):
            parent = sha256(parent + array("q", tokens[start : start + size]).tobytes()).digest()
            hashes.append(parent)

    def _fetch(self, digests: list[bytes]) -> list[int]:
        """Blocks that are filled from the host tier before the next step."""
        blocks: list[int] = []
        if self.host_tier is None:
            return blocks
        # All are taken out first: what leaves the cache to make room must not push out what is to come back.
        for digest, slot in [(digest, self.host_tier.take_out(digest)) for digest in digests]:
            blocks.append(self._take())
            self.host_tier.fetch(slot, blocks[-1])
            self._name(blocks[-1], digest)
        return blocks

    def _name(self, block: int, digest: bytes) -> None:
        self._block_of[digest] = block
        self._hash_of[block] = digest

    def _take(self) -> int:
        block, _ = self._free.popitem(last=False)
        digest = self._hash_of[block]
        if self.host_tier and digest is not None:
            self.host_tier.keep(digest, block)
        self._drop_hash(block)
        self._references[block] = 1
        return block

    def _release(self, block: int) -> None:
        self._references[block] -= 1
        if not self._references[block]:
            self._free[block] = None
            if self._hash_of[block] is None:
                self._free.move_to_end(block, last=False)

    def _share(self, block: int) -> None:
        if not self._references[block]:
            del self._free[block]
        self._references[block] += 1

    def _drop_hash(self, block: int) -> None:
        digest = self._hash_of[block]
        if digest is not None:
            del self._block_of[digest]
            self._hash_of[block] = None

    def _reference_faults(self, sequences: Iterable[Sequence]) -> Iterator[str]:
        owners: Counter[int] = Counter()
        for sequence in sequences:
            held = _held(sequence)
            owners.update(held)
            if GIVEN_BACK in held or set(sequence.block_table[: sequence.first_block]) - {GIVEN_BACK}:
                yield f"{sequence!r} does not hold its window, or more: {sequence.block_table}"
            if len(set(held)) != len(held):
                yield f"{sequence!r} holds a block twice: {sequence.block_table}"
        for block, count in enumerate(self._references):
            if count != owners[block]:
                yield f"block {block} counts {count} references, {owners[block]} sequences hold it"
            if (count == 0) != (block in self._free):
                yield f"block {block} counts {count} references and is{'' if block in self._free else ' not'} free"

    def _hash_faults(self) -> Iterator[str]:
        for block, digest in enumerate(self._hash_of):
            if digest is not None and self._block_of.get(digest) != block:
                yield f"block {block} has a hash that leads to {self._block_of.get(digest)}"
        if len(self._block_of) != sum(digest is not None for digest in self._hash_of):
            yield "a hash leads to a block that does not carry it"


def _held(sequence: Sequence) -> list[int]:
    return sequence.block_table[sequence.first_block :]
