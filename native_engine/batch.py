"""What one step computes: all that the scheduler and the runner say to each other. Plain data, no tensors."""

from __future__ import annotations

from collections.abc import Sequence as ListLike

from native_engine.request import Sequence, Status

UNKNOWN = -1  # among a sequence's tokens: one that the step under way is to choose


class RunnerLost(BaseException):
    """The runner can compute nothing any more, neither this batch nor another. No Exception: it passes by whoever looks
    for the request at fault."""


class ScheduledSequence:
    """The runner computes the tokens [num_computed_tokens, num_computed_tokens + num_new_tokens) of `sequence`.

    Behind them come `drafts`: guesses of the tokens that follow, computed as if they did. The last `num_logits` of all
    need logits: one to sample from and one for each draft, more where what the model says of others is wanted.

    `samples`: the step reaches the sequence's last token, so that its logits give the next one.

    `follows`: the one token to compute is UNKNOWN, since the step launched before this one chooses it: for the item of
    this number among those that sample there. None where every token is known.
    """

    __slots__ = ("drafts", "follows", "num_logits", "num_new_tokens", "samples", "sequence")

    def __init__(self, sequence: Sequence, num_new_tokens: int, num_logits: int) -> None:
        self.sequence = sequence
        self.num_new_tokens = num_new_tokens
        self.num_logits = num_logits
        self.drafts: ListLike[int] = ()
        self.samples = sequence.num_computed_tokens + num_new_tokens == len(sequence.token_ids)
        self.follows: int | None = None


class ScheduledBatch:
    """The work of one step, decodes first.

    An item may share blocks that an earlier item of the same batch fills in this step, so the runner must store the
    keys and values of all items of a layer before it attends in that layer.
    """

    __slots__ = ("items", "num_tokens", "preempted")

    def __init__(self, items: list[ScheduledSequence], preempted: ListLike[Sequence] = ()) -> None:
        self.items = items
        self.num_tokens = sum(item.num_new_tokens + len(item.drafts) for item in items)
        self.preempted = list(preempted)

    @property
    def num_decodes(self) -> int:
        """Items of one token."""
        return sum(item.num_new_tokens == 1 for item in self.items)

    def running(self) -> ScheduledBatch:
        """Without those that no longer run. To be computed now: every token is known."""
        items = [item for item in self.items if item.sequence.status is Status.RUNNING]
        for item in items:
            item.follows = None
        return ScheduledBatch(items)

    def ended(self) -> ScheduledBatch:
        """Only those that ended since."""
        return ScheduledBatch([item for item in self.items if item.sequence.status is Status.FINISHED])

    def halves(self) -> tuple[ScheduledBatch, ScheduledBatch]:
        """In order, so that what the second reads of the first has been written."""
        middle = len(self.items) // 2
        return ScheduledBatch(self.items[:middle]), ScheduledBatch(self.items[middle:])
