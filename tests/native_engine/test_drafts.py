"""Guesses: what is guessed, and that no guess changes what is said."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native_engine.drafts import MOST_REST, PromptLookup
from native_engine.engine import Engine
from native_engine.request import Sequence
from tests.native_engine.fake_runner import FakeRunner, make_scheduler, make_sequence

SAID = [7, 1, 2, 3, 4, 5, 6, 9, 1, 2, 3]


def test_what_followed_the_last_time_is_guessed_again() -> None:
    assert PromptLookup(4).guess(SAID, 10) == [4, 5, 6, 9]
    assert PromptLookup(4).guess(SAID, 2) == [4, 5]
    assert PromptLookup(4).guess([1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3], 1) == [9]


@pytest.mark.parametrize("tokens", [[], [1], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 2, 3]])
def test_nothing_is_guessed_where_nothing_is_known(tokens: list[int]) -> None:
    assert not PromptLookup(4).guess(tokens, 10)


def test_tokens_that_came_since_are_known() -> None:
    lookup, tokens = PromptLookup(4), [5, 6, 7]
    assert not lookup.guess(tokens, 4)
    tokens += [8, 5, 6, 7]
    assert lookup.guess(tokens, 4) == [8, 5, 6, 7]


def test_guesses_are_as_long_as_the_last_went_well() -> None:
    lookup, tokens = PromptLookup(8), [1, 2, 3, *range(10, 40), 1, 2, 3]
    lengths = []
    for kept in (1, 3, 0, 1, 8):
        lengths.append(len(lookup.guess(tokens, 20)))
        lookup.learn(kept)
    assert lengths == [8, 3, 7, 1, 3]
    assert len(lookup.guess(tokens, 20)) == 8


def test_after_failures_in_a_row_there_is_a_rest_that_grows_to_a_limit() -> None:
    lookup, tokens = PromptLookup(4), SAID
    rests = []
    for _ in range(8):
        steps = 0
        while not lookup.guess(tokens, 4):
            steps += 1
        lookup.learn(0)
        rests.append(steps)
    assert rests == [0, 0, 4, 8, 16, MOST_REST, MOST_REST, MOST_REST]
    while not lookup.guess(tokens, 4):
        pass
    lookup.learn(1)
    assert lookup.guess(tokens, 4), "what comes true ends the rest"


class Babbler(FakeRunner):
    """Its next token follows from the last two: it soon goes round in circles, with a slip now and then."""

    def next_token(self, tokens: list[int]) -> int:
        slip = crc32(bytes(tokens[-9:])) % 11 == 0
        return (tokens[-1] * 3 + tokens[-2] + slip) % 7 if len(tokens) > 1 else 1


def run(
    speculative: int, prompts: list[list[int]], budget: int, blocks: int, max_tokens: int
) -> tuple[Engine, list[Sequence]]:
    scheduler = make_scheduler(blocks, 4, budget, blocks * 16, num_speculative_tokens=speculative)
    engine = Engine(Babbler(blocks), scheduler)
    sequences = [
        make_sequence(str(index), prompt, max_tokens, eos=frozenset({6}), ignore_eos=index % 2 == 0)
        for index, prompt in enumerate(prompts)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.scheduler.has_work:
        batch_before = engine.steps
        engine.step()
        assert engine.steps > batch_before
        assert scheduler.blocks.check_integrity(scheduler.running) == []
        for sequence in scheduler.running:
            assert sequence.num_tokens - sequence.num_computed_tokens >= 1
    return engine, sequences


@settings(deadline=None)
@given(
    prompts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=40), min_size=1, max_size=6),
    speculative=st.integers(1, 9),
    budget=st.integers(4, 24),
    blocks=st.integers(4, 12),
    max_tokens=st.integers(1, 90),
)
def test_with_guesses_the_same_is_said_token_for_token(
    prompts: list[list[int]], speculative: int, budget: int, blocks: int, max_tokens: int
) -> None:
    without, plain = run(0, prompts, budget, blocks, max_tokens)
    engine, sequences = run(speculative, prompts, budget, blocks, max_tokens)
    assert [each.token_ids for each in sequences] == [each.token_ids for each in plain]
    assert [each.finish_reason for each in sequences] == [each.finish_reason for each in plain]
    assert engine.scheduler.blocks.num_free == blocks
    assert without.scheduler.speculation.draft_tokens == 0
    assert engine.scheduler.speculation.accepted_tokens <= engine.scheduler.speculation.draft_tokens


def test_what_repeats_itself_takes_fewer_steps() -> None:
    without, _ = run(0, [[1, 2]], 24, 12, 90)
    engine, _ = run(6, [[1, 2]], 24, 12, 90)
    assert engine.steps < without.steps * 2 / 3
    stats = engine.stats()
    assert 0 < stats.accepted_tokens <= stats.draft_tokens


def test_blocks_that_fill_with_guesses_are_found_by_whoever_says_the_same() -> None:
    scheduler = make_scheduler(12, 4, 24, 192, num_speculative_tokens=6)
    engine = Engine(Babbler(12), scheduler)
    first = make_sequence("a", [1, 2], 60, ignore_eos=True)
    engine.add(first)
    while scheduler.has_work:
        engine.step()
    assert scheduler.speculation.accepted_tokens > 16
    second = make_sequence("b", first.token_ids, 1)
    engine.add(second)
    engine.step()
    assert second.num_cached_tokens >= 48
