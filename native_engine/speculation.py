"""Which guesses a step computes, and what becomes of them. `drafts` makes them; knows no order of requests."""

from __future__ import annotations

from native_engine.batch import ScheduledSequence
from native_engine.block_manager import BlockManager
from native_engine.drafts import PromptLookup
from native_engine.request import Sequence, Status


class Speculation:
    """`most`: guesses behind one token; 0 for none."""

    def __init__(self, blocks: BlockManager, most: int) -> None:
        self.draft_tokens = 0
        self.accepted_tokens = 0
        self._blocks = blocks
        self._most = most

    def begin(self, sequence: Sequence) -> None:
        if self._most and not sequence.looks_back:
            sequence.lookup = PromptLookup(self._most)

    def draft(self, items: list[ScheduledSequence], room: int, reserve: int) -> None:
        """At most `room` guesses, in blocks that leave `reserve` free: nobody steps aside for a guess."""
        for item in items:
            sequence = item.sequence
            if sequence.lookup is not None and room > 0:
                most = min(room, sequence.max_total_tokens - len(sequence.token_ids) - 1)
                drafts = sequence.lookup.guess(sequence.token_ids, most)
                item.drafts = drafts[: self._slots_after(sequence, len(drafts), reserve)]
                item.num_logits += len(item.drafts)
                room -= len(item.drafts)

    def keep(self, item: ScheduledSequence, kept: int) -> None:
        """The keys and values of guesses that came true are computed already."""
        sequence = item.sequence
        self.draft_tokens += len(item.drafts)
        self.accepted_tokens += kept
        if sequence.status is Status.RUNNING and sequence.lookup is not None:
            self._blocks.publish(sequence, sequence.num_computed_tokens + kept)
            sequence.num_computed_tokens += kept
            sequence.lookup.learn(kept)

    def _slots_after(self, sequence: Sequence, wanted: int, reserve: int) -> int:
        """Slots for tokens after the last, with one more block for them where that can be had."""
        used, size = len(sequence.token_ids), self._blocks.block_size
        if used + wanted > len(sequence.block_table) * size and self._blocks.num_free > reserve:
            self._blocks.append_block(sequence)
        return len(sequence.block_table) * size - used
