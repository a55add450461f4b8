from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.block_manager import GIVEN_BACK, BlockManager
from native_engine.request import Sequence
from tests.native_engine.fake_runner import make_sequence


def compute(blocks: BlockManager, sequence: Sequence) -> None:
    """Pretends that the runner went over every token of the sequence."""
    blocks.publish(sequence, sequence.num_tokens)
    sequence.num_computed_tokens = sequence.num_tokens


def admitted(blocks: BlockManager, sequence: Sequence) -> Sequence:
    assert blocks.allocate(sequence)
    compute(blocks, sequence)
    return sequence


def hits(blocks: BlockManager, sequence: Sequence) -> int:
    """How many tokens of the sequence the cache would give; leaves the cache as it was."""
    assert blocks.allocate(sequence)
    found = sequence.num_computed_tokens
    blocks.free(sequence)
    return found


def test_no_block_is_lent_twice() -> None:
    blocks = BlockManager(8)
    first, second = make_sequence("a", 40), make_sequence("b", [9] * 60)
    assert blocks.allocate(first)
    assert blocks.allocate(second)
    assert not set(first.block_table) & set(second.block_table)
    assert (len(first.block_table), len(second.block_table), blocks.num_free) == (3, 4, 1)
    assert blocks.check_integrity([first, second]) == []


def test_a_refused_allocation_changes_nothing() -> None:
    blocks = BlockManager(4)
    kept = admitted(blocks, make_sequence("a", 40))
    refused = make_sequence("b", 70)
    assert not blocks.allocate(refused)
    assert refused.block_table == []
    assert blocks.num_free == 1
    assert blocks.check_integrity([kept]) == []


def test_a_reserve_stays_free() -> None:
    blocks = BlockManager(4)
    assert not blocks.allocate(make_sequence("a", 48), reserve=2)
    assert blocks.allocate(make_sequence("a", 48), reserve=1)


def test_usage_counts_lent_blocks_only() -> None:
    blocks = BlockManager(4)
    sequence = admitted(blocks, make_sequence("a", 32))
    assert (blocks.num_used, blocks.usage) == (2, 0.5)
    blocks.free(sequence)
    assert (blocks.num_used, blocks.usage) == (0, 0.0)


def test_a_repeated_prefix_is_shared_in_full_blocks() -> None:
    blocks = BlockManager(16)
    first = admitted(blocks, make_sequence("a", 40))
    second = make_sequence("b", [*first.token_ids[:36], 200, 201])
    assert blocks.allocate(second)
    assert second.num_computed_tokens == 32
    assert second.block_table[:2] == first.block_table[:2]
    assert second.block_table[2] != first.block_table[2]
    assert blocks.check_integrity([first, second]) == []


@pytest.mark.parametrize(("length", "expected"), [(1, 0), (16, 0), (17, 16), (32, 16), (33, 32)])
def test_the_last_token_is_never_a_hit(length: int, expected: int) -> None:
    blocks = BlockManager(16)
    blocks.free(admitted(blocks, make_sequence("a", length)))
    assert hits(blocks, make_sequence("b", length)) == expected


def test_a_freed_prefix_is_found_again() -> None:
    blocks = BlockManager(8)
    blocks.free(admitted(blocks, make_sequence("a", 40)))
    assert blocks.num_free == 8
    assert hits(blocks, make_sequence("b", 40)) == 32


def test_another_salt_never_hits() -> None:
    blocks = BlockManager(16)
    blocks.free(admitted(blocks, make_sequence("a", 40, salt=b"tenant-1")))
    assert hits(blocks, make_sequence("b", 40, salt=b"tenant-2")) == 0
    assert hits(blocks, make_sequence("c", 40)) == 0
    assert hits(blocks, make_sequence("d", 40, salt=b"tenant-1")) == 32


def test_an_equal_block_behind_another_prefix_is_no_hit() -> None:
    blocks = BlockManager(16)
    same = [7] * 17
    blocks.free(admitted(blocks, make_sequence("a", [1] * 16 + same)))
    assert hits(blocks, make_sequence("b", [2] * 16 + same)) == 0


def test_without_prefix_caching_nothing_is_found() -> None:
    blocks = BlockManager(8, enable_prefix_caching=False)
    blocks.free(admitted(blocks, make_sequence("a", 40)))
    assert hits(blocks, make_sequence("b", 40)) == 0


def test_blocks_without_content_are_lent_before_cached_ones() -> None:
    blocks = BlockManager(8)
    blocks.free(admitted(blocks, make_sequence("a", 40)))
    blocks.free(admitted(blocks, make_sequence("b", [9] * 80)))  # exactly the empty ones
    assert hits(blocks, make_sequence("c", 40)) == 32


def test_the_least_recently_used_prefix_is_evicted_first() -> None:
    blocks = BlockManager(6)
    old, recent = [1] * 33, [2] * 33
    for tokens in (old, recent, old):
        blocks.free(admitted(blocks, make_sequence("a", tokens)))
    blocks.free(admitted(blocks, make_sequence("b", [3] * 60)))
    assert hits(blocks, make_sequence("c", old)) == 32
    assert hits(blocks, make_sequence("d", recent)) == 0


def test_the_tail_of_a_prefix_is_evicted_before_its_head() -> None:
    blocks = BlockManager(4)
    blocks.free(admitted(blocks, make_sequence("a", 64)))
    assert blocks.allocate(make_sequence("b", [9] * 17))
    again = make_sequence("c", 33)
    assert blocks.allocate(again) is False  # two hits, but none left for the third block
    again.token_ids = again.token_ids[:20]
    assert blocks.allocate(again) is True
    assert again.num_computed_tokens == 16


def test_forgotten_blocks_are_not_found_again() -> None:
    blocks = BlockManager(8)
    sequence = admitted(blocks, make_sequence("a", 40))
    blocks.forget(sequence)
    blocks.free(sequence)
    assert hits(blocks, make_sequence("b", 40)) == 0
    assert blocks.check_integrity([]) == []


def test_each_full_block_is_hashed_once() -> None:
    blocks = BlockManager(8)
    sequence = admitted(blocks, make_sequence("a", 40))
    hashes = list(sequence.block_hashes)
    sequence.token_ids += range(100, 110)
    compute(blocks, sequence)
    assert sequence.block_hashes[:2] == hashes
    assert len(sequence.block_hashes) == 3


@pytest.mark.parametrize("window", [1, 2, 16, 17, 18, 33, 34, 49])
@pytest.mark.parametrize("computed", [0, 1, 31, 32, 47, 48])
def test_what_no_coming_token_sees_is_given_back_and_nothing_else(window: int, computed: int) -> None:
    blocks = BlockManager(8, window=window)
    sequence = make_sequence("a", 49)
    assert blocks.allocate(sequence)
    sequence.num_computed_tokens = computed
    blocks.slide(sequence)
    blocks.slide(sequence)
    seen = {position // 16 for position in range(max(0, computed + 1 - window), 49)}
    assert [block != GIVEN_BACK for block in sequence.block_table] == [index in seen for index in range(4)]
    assert blocks.num_used == len(seen)
    assert blocks.check_integrity([sequence]) == []
    blocks.free(sequence)
    assert (blocks.num_free, sequence.first_block) == (8, 0)


def test_what_was_given_back_can_still_be_found() -> None:
    blocks = BlockManager(16, window=20)
    sequence = admitted(blocks, make_sequence("a", 100))
    blocks.slide(sequence)
    assert sequence.first_block == 5
    assert hits(blocks, make_sequence("b", 40)) == 32


def test_with_a_window_a_prefix_whose_end_is_gone_is_shorter() -> None:
    blocks = BlockManager(12, window=20)
    blocks.free(admitted(blocks, make_sequence("a", 81)))
    gone = make_sequence("gone", 81)
    assert blocks.allocate(gone)
    assert (gone.num_computed_tokens, gone.first_block) == (80, 3)
    blocks._drop_hash(gone.block_table[4])
    blocks.free(gone)
    again = make_sequence("again", 81)
    assert blocks.allocate(again)
    assert (again.num_computed_tokens, again.first_block) == (64, 2)
    assert blocks.check_integrity([again]) == []


def test_integrity_check_sees_a_hole_in_a_window() -> None:
    blocks = BlockManager(8, window=20)
    sequence = admitted(blocks, make_sequence("a", 60))
    sequence.block_table[2] = GIVEN_BACK
    assert any("does not hold its window" in fault for fault in blocks.check_integrity([sequence]))


def test_integrity_check_sees_a_leak_and_a_double_owner() -> None:
    blocks = BlockManager(4)
    first, second = make_sequence("a", 20), make_sequence("b", [9] * 20)
    assert blocks.allocate(first)
    assert blocks.allocate(second)
    assert any("references" in fault for fault in blocks.check_integrity([first]))
    second.block_table = list(first.block_table)
    assert blocks.check_integrity([first, second])


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), num_blocks=st.integers(1, 12), caching=st.booleans())
def test_random_lending_keeps_every_invariant(seed: int, num_blocks: int, caching: bool) -> None:
    choose = random.Random(seed)
    blocks = BlockManager(num_blocks, 16, caching)
    live: list[Sequence] = []
    for step in range(60):
        action = choose.random()
        if action < 0.5:
            prompt = [choose.randrange(2)] * choose.randrange(1, 16 * num_blocks + 8)
            sequence = make_sequence(str(step), prompt, salt=choose.choice([b"", b"x"]))
            if blocks.allocate(sequence, reserve=choose.randrange(2)):
                live.append(sequence)
                compute(blocks, sequence)
        elif live and action < 0.7:
            blocks.append_block(choose.choice(live))
        elif live:
            ended = live.pop(choose.randrange(len(live)))
            if choose.random() < 0.1:
                blocks.forget(ended)
            blocks.free(ended)
        assert blocks.check_integrity(live) == []
    for sequence in live:
        blocks.free(sequence)
    assert blocks.num_free == num_blocks
