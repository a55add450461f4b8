"""The second tier: what the cache had to give up comes back from host memory, and it is the same."""

from __future__ import annotations

from native_engine.engine import Engine
from native_engine.host_tier import Copy, HostTier
from native_engine.request import Sequence
from tests.native_engine.fake_runner import FakeRunner, expected_output, make_scheduler, make_sequence


def make_engine(num_blocks: int, num_host_blocks: int) -> Engine:
    runner = FakeRunner(num_blocks, num_host_blocks=num_host_blocks)
    return Engine(runner, make_scheduler(num_blocks, 8, 256, num_host_blocks=num_host_blocks))


def run(engine: Engine, *sequences: Sequence) -> None:
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        engine.step()
        assert engine.scheduler.blocks.check_integrity(engine.scheduler.running) == []


def ask(engine: Engine, name: str, first: int, salt: bytes = b"") -> Sequence:
    """64 tokens that begin with `first`; the fake runner checks what it reads."""
    prompt = [first, *range(2, 65)]
    sequence = make_sequence(name, prompt, 4, salt=salt)
    run(engine, sequence)
    assert sequence.output_token_ids == expected_output(prompt, 4)
    return sequence


def test_a_prompt_that_was_pushed_out_comes_back_from_the_host() -> None:
    engine = make_engine(num_blocks=6, num_host_blocks=8)
    ask(engine, "a", 100)
    ask(engine, "b", 101)
    ask(engine, "c", 102)
    assert ask(engine, "again", 100).num_cached_tokens == 48
    assert engine.stats().host_blocks_fetched == 3


def test_without_a_tier_it_is_gone() -> None:
    engine = make_engine(num_blocks=6, num_host_blocks=0)
    for name, first in (("a", 100), ("b", 101), ("c", 102)):
        ask(engine, name, first)
    assert ask(engine, "again", 100).num_cached_tokens == 0


def test_other_tenants_find_nothing_there() -> None:
    engine = make_engine(num_blocks=6, num_host_blocks=12)
    for name, first in (("a", 100), ("b", 101), ("c", 102)):
        ask(engine, name, first, salt=b"one")
    assert ask(engine, "other", 100, salt=b"two").num_cached_tokens == 0


def test_the_tier_too_forgets_what_was_kept_longest_ago() -> None:
    engine = make_engine(num_blocks=6, num_host_blocks=4)
    for name, first in (("a", 100), ("b", 101), ("c", 102), ("d", 103)):
        ask(engine, name, first)
    assert engine.stats().host_blocks_used == 4
    assert ask(engine, "newer", 102).num_cached_tokens > 0
    assert ask(engine, "oldest", 100).num_cached_tokens == 0


def test_a_preempted_request_finds_what_it_had_computed() -> None:
    engine = make_engine(num_blocks=8, num_host_blocks=16)
    sequences = [make_sequence(str(index), [100 + index, *range(2, 34)], 60) for index in range(3)]
    run(engine, *sequences)
    assert engine.stats().preemptions_total > 0
    assert engine.stats().host_blocks_fetched > 0
    for sequence in sequences:
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        assert sequence.output_token_ids == expected_output(prompt, 60)


def test_where_every_slot_is_on_its_way_back_nothing_more_is_kept() -> None:
    tier = HostTier(1)
    tier.keep(b"first", device=5)
    slot = tier.take_out(b"first")
    tier.keep(b"second", device=6)
    tier.fetch(slot, device=6)
    assert b"second" not in tier
    assert tier.take_copies() == [Copy(5, 0, True), Copy(6, 0, False)]
    assert tier.faults() == []


def test_a_full_tier_makes_room_for_what_leaves_before_what_returns_is_overwritten() -> None:
    tier = HostTier(1)
    tier.keep(b"first", device=5)
    slot = tier.take_out(b"first")
    assert b"first" not in tier
    tier.fetch(slot, device=6)
    tier.keep(b"second", device=7)
    assert tier.take_copies() == [Copy(5, 0, True), Copy(6, 0, False), Copy(7, 0, True)]
    assert tier.take_copies() == []
    assert tier.faults() == []
