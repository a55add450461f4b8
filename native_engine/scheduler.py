"""Which tokens the next step computes. Plain data and integers: knows neither model nor torch, text nor sockets.

Every request has one counter, `num_computed_tokens`, that chases the number of its tokens; a long prompt in chunks, a
cached prefix and the way back after a preemption are all the same chase.

Who goes first: the lower `priority`, and among equals whoever came first. That is one order of all requests (`rank`),
and everything follows it: who is let in, whose prompt gets the budget, and, from its end, who steps aside when blocks
run out. So the first of those that run always gets on, and since alone it fits the cache, every schedule ends. The
newest is the one to step aside because it keeps the order of arrival, and mostly has the least to compute again.

A request that waits and lacks a seat or blocks may displace those of worse priority, the last of them first, no more
than needed, only where that is enough, and each of them MAX_YIELDS times at most. Nobody is displaced for an equal.

Nobody starves: when OVERTAKINGS younger requests in a row went before the oldest that waits, it is promoted ahead of
every priority and nobody displaces it. A count, not a clock: however long a backlog of batch work has waited, one in so
many places is the most that it takes from interactive requests. A promoted request gets the next place that comes
free; meanwhile others may still displace.
"""

from __future__ import annotations

import logging
import time
from bisect import insort
from collections.abc import Callable
from collections.abc import Sequence as ListLike

from native_engine.ahead import follow
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.block_manager import BlockManager
from native_engine.config import EXTRA_LOGITS
from native_engine.order import ORDINARY, PROMOTED, Overtakings, end_of, rank
from native_engine.request import FinishReason, Preemption, Sequence, Status, is_ready
from native_engine.speculation import Speculation

logger = logging.getLogger(__name__)

MAX_YIELDS = 3
LEAST_PREFILL = 16

_RUNNING, _FINISHED = Status.RUNNING, Status.FINISHED


class Scheduler:
    """Owns every live sequence. One thread calls it; only `check` may be called from any."""

    def __init__(
        self,
        block_manager: BlockManager,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        clock: Callable[[], float] = time.monotonic,
        num_speculative_tokens: int = 0,
        max_num_logits: int | None = None,
    ) -> None:
        if not 1 <= max_num_seqs <= max_num_batched_tokens:
            raise ValueError(
                f"max_num_seqs ({max_num_seqs}) must be at least 1 and at most "
                f"max_num_batched_tokens ({max_num_batched_tokens}), or a step cannot give every sequence a token"
            )
        self.blocks = block_manager
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.speculation = Speculation(block_manager, num_speculative_tokens)
        self.max_num_logits = max_num_logits or max_num_seqs + EXTRA_LOGITS
        # No sequence may outgrow the whole cache: alone it always fits, so preempting the others always helps it on.
        self.max_total_tokens = min(max_model_len, block_manager.num_slots)
        self.waiting: list[Sequence] = []  # both in the order of their ranks
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.prefix_cache_queries = 0
        self.prefix_cache_hits = 0
        self._live: dict[str, Sequence] = {}
        self._under_way: set[Sequence] = set()  # whom a step computes that followed one not settled yet
        self._arrivals = 0
        self._overtakings = Overtakings()
        self._clock = clock  # the one that `queued_at` was read from

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._live

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def live(self) -> list[Sequence]:
        return list(self._live.values())

    def check(self, sequence: Sequence) -> None:
        """Refuses what can never run. A `max_tokens` beyond the limit is no fault: such a request ends by LENGTH."""
        limit = self.max_total_tokens
        if not sequence.token_ids:
            raise ValueError("the prompt is empty: at least one token is needed")
        if sequence.num_prompt_tokens >= limit:
            raise ValueError(
                f"the prompt has {sequence.num_prompt_tokens} tokens, but a sequence can hold {limit} "
                f"({self.blocks.num_slots} in the whole KV cache), at least one of them for the output"
            )

    def add(self, sequence: Sequence) -> None:
        self.check(sequence)
        if sequence.request_id in self._live:
            raise ValueError(f"request id {sequence.request_id!r} is in use")
        wanted = sequence.params.max_tokens
        asked = self.max_total_tokens if wanted is None else sequence.num_prompt_tokens + wanted
        sequence.max_total_tokens = min(asked, self.max_total_tokens)
        self._live[sequence.request_id] = sequence
        self._arrivals += 1
        sequence.rank = (ORDINARY, sequence.priority, self._arrivals)
        insort(self.waiting, sequence, key=rank)
        self.speculation.begin(sequence)

    def abort(self, request_id: str) -> Sequence | None:
        """Ends a request in whatever state it is; None where it is not here (any more). Its blocks are freed at once,
        or with the step under way."""
        sequence = self._live.get(request_id)
        if sequence is None:
            return None
        if sequence.status is _RUNNING:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self._finish(sequence, FinishReason.ABORT)
        return sequence

    def schedule(self, decode_limit: int | None = None, under_way: ScheduledBatch | None = None) -> ScheduledBatch:
        """One token for each that decodes, then, while budget lasts, chunks of prompts and new requests, by rank.

        `decode_limit`: the most tokens of a step in which something decodes. A prompt gets LEAST_PREFILL even then.

        `under_way`: a step that this one follows before it is settled (see `ahead`). Nothing is scheduled where
        somebody would have to step aside.
        """
        items: list[ScheduledSequence] = []
        preempted: list[Sequence] = []
        if under_way is not None and self._is_short():
            return ScheduledBatch(items)
        self._displace(preempted)
        prefills = self._schedule_decodes(items, preempted, skip_held=True)
        num_decodes = len(items)
        budget = self._prefill_budget(num_decodes, decode_limit)
        for sequence in prefills:
            if not preempted:  # whoever were let in now would be the next to step aside
                budget -= self._admit(items, budget, before=sequence)
            budget -= self._schedule_chunk(items, sequence, budget)
        if not preempted:
            budget -= self._admit(items, budget)
        if len(items) == num_decodes:  # prompts use what a step can hold better than guesses do
            self.speculation.draft(items, min(budget, self.max_num_logits - num_decodes), reserve=len(self.running))
        if not items:  # nobody else gets on meanwhile: the runner may wait for masks
            self._schedule_decodes(items, preempted, skip_held=False)
        if under_way is not None:
            follow(items, under_way)
        return ScheduledBatch(items, preempted)

    def postprocess(
        self, batch: ScheduledBatch, tokens: ListLike[list[int]], following: ScheduledBatch | None = None
    ) -> list[tuple[Sequence, int]]:
        """Gives each item that samples its tokens, in order; returns their sequences, some now finished, and how many
        tokens each has now more. One that got none, since its mask was not made yet, is left out until it is.

        `following`: the step that is under way meanwhile. Who ends, but is computed there, keeps its blocks until then.
        """
        sampled = [item for item in batch.items if item.samples]
        if len(tokens) != len(sampled):
            raise RuntimeError(f"the runner gave tokens to {len(tokens)} sequences of {len(sampled)}")
        self._under_way = set() if following is None else {item.sequence for item in following.items}
        for item in batch.items:
            self._settle(item)
        # One that ended while the batch was being computed has had its last word.
        advanced = [pair for pair in zip(sampled, tokens, strict=True) if pair[0].sequence.status is _RUNNING]
        grown = [(item.sequence, self._extend(item.sequence, new)) for item, new in advanced]
        for item, new in advanced:
            if item.drafts and new:
                self.speculation.keep(item, len(new) - 1)
        self._drop_finished()
        if self.blocks.window is not None:
            for sequence in self.running:
                self.blocks.slide(sequence)
        return [(sequence, count) for sequence, count in grown if count or sequence.status is _FINISHED]

    def fail(self, batch: ScheduledBatch) -> list[Sequence]:
        """Ends every sequence of a batch that could not be computed, while nothing else is under way, and hides what
        it, and who ended before that, may have written.

        Whoever was to read that in the same step has not been computed yet, and begins anew.
        """
        self._under_way = set()
        ended: list[Sequence] = []
        unwritten: set[int] = set()
        for sequence in [item.sequence for item in batch.items]:
            unwritten.update(sequence.block_table[sequence.num_computed_tokens // self.blocks.block_size :])
            self.blocks.forget(sequence)
            if sequence.status is _RUNNING:
                self._finish(sequence, FinishReason.ERROR)
                ended.append(sequence)
            else:
                self.blocks.free(sequence)
        self._drop_finished()
        for reader in [each for each in self.running if not unwritten.isdisjoint(each.block_table)]:
            self.blocks.forget(reader)
            self._preempt(reader)
        return ended

    def _settle(self, item: ScheduledSequence) -> None:
        """What the item computed is in the cache."""
        sequence = item.sequence
        if sequence.status is not _RUNNING:  # it ended meanwhile, and nothing writes to its blocks any more
            self.blocks.free(sequence)
            return
        end = sequence.num_computed_tokens + item.num_new_tokens
        if end % self.blocks.block_size == 0:
            self.blocks.publish(sequence, end)
        sequence.num_computed_tokens = end

    def _schedule_decodes(
        self, items: list[ScheduledSequence], preempted: list[Sequence], *, skip_held: bool
    ) -> list[Sequence]:
        """Schedules all that lack one token; returns those that lack more. Preempts from the end of `running`."""
        running, block_size = self.running, self.blocks.block_size
        prefills: list[Sequence] = []
        index = 0
        while index < len(running):
            sequence = running[index]
            index += 1
            computed = sequence.num_computed_tokens
            if len(sequence.token_ids) - computed > 1:
                prefills.append(sequence)
            elif skip_held and sequence.is_held and not is_ready(sequence):
                continue
            elif len(sequence.token_ids) == sequence.max_total_tokens:
                continue  # its last token is under way
            elif computed < len(sequence.block_table) * block_size or self._make_room(sequence, preempted):
                items.append(ScheduledSequence(sequence, 1, 1))
        return prefills

    def _prefill_budget(self, num_decodes: int, decode_limit: int | None) -> int:
        left = self.max_num_batched_tokens - num_decodes
        if decode_limit is None or not num_decodes:
            return left
        return min(left, max(decode_limit - num_decodes, LEAST_PREFILL))

    def _schedule_chunk(self, items: list[ScheduledSequence], sequence: Sequence, budget: int) -> int:
        """As much of the sequence's missing tokens as the budget allows; its blocks are there since its admission."""
        computed = sequence.num_computed_tokens
        missing = len(sequence.token_ids) - computed
        chunk = min(missing, budget)
        num_logits = int(chunk == missing)
        if sequence.wants_prompt_logprobs:
            untold = max(computed, len(sequence.prompt_logprobs))
            chunk = min(chunk, untold + self._spare_logits(items) - computed)
            num_logits = max(0, computed + chunk - untold)
        if chunk:
            # Published before it is computed: later items of this very batch may share it (see ScheduledBatch).
            self.blocks.publish(sequence, computed + chunk)
            items.append(ScheduledSequence(sequence, chunk, num_logits))
        return chunk

    def _spare_logits(self, items: list[ScheduledSequence]) -> int:
        """Rows of logits that no item needs, though each sequence that could run took one."""
        return self.max_num_logits - self.max_num_seqs - sum(max(0, item.num_logits - 1) for item in items)

    def _admit(self, items: list[ScheduledSequence], budget: int, before: Sequence | None = None) -> int:
        """Lets requests in, strictly in order, with blocks for all their tokens; returns how many tokens it scheduled.

        `before`: only those that rank before this one.
        """
        spent = 0
        while self.waiting and spent < budget and self._fits(self.waiting[0]):
            sequence = self.waiting[0]
            if before is not None and before.rank < sequence.rank:
                break
            self._start(sequence)
            spent += self._schedule_chunk(items, sequence, budget - spent)
        return spent

    def _fits(self, sequence: Sequence, without: ListLike[Sequence] = ()) -> bool:
        """Whether there are a seat and blocks, once those of `without` are gone.

        A block a running sequence stays free, since each will ask for one within 16 steps.
        """
        seated = len(self.running) - len(without)
        return seated < self.max_num_seqs and self.blocks.fits(sequence, seated, without)

    def _start(self, sequence: Sequence) -> None:
        """Seats one that waits and fits."""
        self.blocks.allocate(sequence)
        self.waiting.remove(sequence)
        insort(self.running, sequence, key=rank)
        sequence.status = _RUNNING
        if not sequence.admitted:
            self._count_prompt(sequence)
        self._overtakings.count(sequence, self.waiting)

    def _displace(self, preempted: list[Sequence]) -> None:
        """Seats those that wait in the places of others whose priority is worse."""
        first = end_of(self.waiting, PROMOTED, 0)
        while first < len(self.waiting) and (victims := self._victims(self.waiting[first])):
            sequence = self.waiting[first]
            for victim in victims:
                self._preempt(victim)
                victim.num_yields += 1
            preempted += victims
            self._start(sequence)

    def _victims(self, sequence: Sequence) -> list[Sequence]:
        """The fewest, from the end, whose seats and blocks are enough for `sequence`; empty where it needs none."""
        first = end_of(self.running, ORDINARY, sequence.priority)
        worse = [each for each in self.running[first:] if each.num_yields < MAX_YIELDS]
        if not worse or self._fits(sequence) or not self._fits(sequence, worse):
            return []
        return next(worse[-count:] for count in range(1, len(worse) + 1) if self._fits(sequence, worse[-count:]))

    def _is_short(self) -> bool:
        """Whether somebody would have to step aside now."""
        size = self.blocks.block_size
        lacking = sum(each.num_computed_tokens == len(each.block_table) * size for each in self.running)
        first = end_of(self.waiting, PROMOTED, 0)
        displaces = first < len(self.waiting) and bool(self._victims(self.waiting[first]))
        return displaces or lacking > self.blocks.num_free

    def _count_prompt(self, sequence: Sequence) -> None:
        sequence.admitted = True
        sequence.scheduled_at = self._clock()
        sequence.num_cached_tokens = sequence.num_computed_tokens
        self.prompt_tokens += sequence.num_prompt_tokens
        if self.blocks.enable_prefix_caching:
            self.prefix_cache_queries += sequence.num_prompt_tokens
            self.prefix_cache_hits += sequence.num_cached_tokens

    def _make_room(self, sequence: Sequence, preempted: list[Sequence]) -> bool:
        """One more block for `sequence`, from the newest if need be; False where that is the sequence itself."""
        while not self.blocks.append_block(sequence):
            victim = self.running[-1]
            self._preempt(victim)
            preempted.append(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """The way out of `running` and back into `waiting`."""
        lost, which = sequence.num_computed_tokens, {"sequence_id": sequence.request_id}
        logger.info("preempted %s: %d tokens to recompute", sequence.request_id, lost, extra={"fields": which})
        self.blocks.free(sequence)
        sequence.num_computed_tokens = 0
        sequence.status = Status.PREEMPTED
        sequence.preemptions.append(Preemption(self._clock(), lost))
        self.num_preemptions += 1
        self.running.remove(sequence)
        insort(self.waiting, sequence, key=rank)

    def _extend(self, sequence: Sequence, tokens: list[int]) -> int:
        """Returns how many of the tokens the sequence took: none after the one that ends it."""
        sequence.is_held = not tokens
        if sequence.is_held:
            sequence.num_computed_tokens -= 1  # its logits are needed once more
        for count, token in enumerate(tokens):
            if token < 0:  # the logits were not numbers
                self._discard(sequence)
                return count
            self._append(sequence, token)
            if sequence.status is _FINISHED:
                return count + 1
        return len(tokens)

    def _append(self, sequence: Sequence, token: int) -> None:
        sequence.token_ids.append(token)
        if sequence.first_token_at is None:
            sequence.first_token_at = self._clock()
        self.generation_tokens += 1
        if token in sequence.stop_ids and sequence.num_output_tokens >= sequence.params.min_tokens:
            self._finish(sequence, FinishReason.STOP)
        elif len(sequence.token_ids) >= sequence.max_total_tokens:
            self._finish(sequence, FinishReason.LENGTH)

    def _discard(self, sequence: Sequence) -> None:
        self.blocks.forget(sequence)
        self._finish(sequence, FinishReason.ERROR)

    def _finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """The caller takes the sequence out of `running` or `waiting`."""
        if sequence not in self._under_way:
            self.blocks.free(sequence)
        sequence.status = _FINISHED
        sequence.finish_reason = reason
        sequence.finished_at = self._clock()
        del self._live[sequence.request_id]

    def _drop_finished(self) -> None:
        if any(sequence.status is _FINISHED for sequence in self.running):
            self.running = [sequence for sequence in self.running if sequence.status is _RUNNING]
