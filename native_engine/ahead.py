"""Planning a step while the one before it is under way on a device: the whole rule. Knows neither blocks nor order.

Within `ahead_of` a step under way, each sequence stands where that step will leave it, and the token that it will
choose is UNKNOWN. The scheduler plans on that as on anything else, and the runner launches the plan. Then the sequences
stand again where they stood, and the step under way is waited for and settled as if nothing followed. So no placeholder
is ever seen outside. What the plan could not know:

- That a sequence ends: by its next token, an abort, an error. It is computed once more, that token is thrown away, and
  its blocks are kept until then. Only an end by length is known, and not computed further.
- What is in a block that fills with an unknown token. It is published when the step that fills it is settled.
- Who can step aside: the blocks of all that run are being written. Where somebody must, nothing is planned ahead.
- What the host makes of a result: `can_be_followed` is False where that decides what comes next.

Where a step under way fails, what followed it was computed on nothing: both are computed anew, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from native_engine.batch import UNKNOWN, ScheduledBatch, ScheduledSequence


def can_be_followed(batch: ScheduledBatch) -> bool:
    """Whether the next step can be planned before this one's result is known, if a device chooses its tokens."""
    return not any(_needs_host(item) for item in batch.items)


@contextmanager
def ahead_of(batch: ScheduledBatch) -> Iterator[None]:
    """Within, the batch's sequences stand behind what it computes."""
    for item in batch.items:
        item.sequence.num_computed_tokens += item.num_new_tokens
        if item.samples:
            item.sequence.token_ids.append(UNKNOWN)
    try:
        yield
    finally:
        for item in batch.items:
            item.sequence.num_computed_tokens -= item.num_new_tokens
            if item.samples:
                item.sequence.token_ids.pop()


def follow(items: list[ScheduledSequence], under_way: ScheduledBatch) -> None:
    """Says of each item whose token is unknown who chooses it."""
    sampled = (item.sequence for item in under_way.items if item.samples)
    places = {sequence: place for place, sequence in enumerate(sampled)}
    for item in items:
        item.follows = places.get(item.sequence)


def _needs_host(item: ScheduledSequence) -> bool:
    """Guesses are made behind known tokens and kept or not, a grammar is told each token, and how much of a prompt is
    computed next hangs on what has been told of it."""
    sequence = item.sequence
    guided = sequence.lookup is not None or sequence.constraint is not None
    return bool(item.drafts) or (item.samples and guided) or sequence.wants_prompt_logprobs
