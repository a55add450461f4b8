"""Estimates of what steps compute and read, against sums by hand."""

from __future__ import annotations

import pytest

from backends.capacity import ModelShape, active_parameters, model_weight_bytes, step_weight_bytes
from native_engine.batch import ScheduledBatch, ScheduledSequence
from native_engine.request import SamplingParams, Sequence
from native_engine.work import Work

SHAPE = ModelShape(1000, 64, 128, 2, 4, 2, 16)
HEAD = 2 * 1000 * 64
KV_BYTES = 2 * 2 * 2 * 16 * 2  # of a token: keys and values, layers, heads, dimensions, bytes
ATTENTION = 4 * 2 * 4 * 16


def item(computed: int, tokens: int, logits: int = 1, drafts: int = 0) -> ScheduledSequence:
    sequence = Sequence("r", [1] * (computed + tokens), SamplingParams())
    sequence.num_computed_tokens = computed
    scheduled = ScheduledSequence(sequence, tokens, logits)
    scheduled.drafts = [1] * drafts
    return scheduled


def sums(*items: ScheduledSequence, shape: ModelShape = SHAPE) -> tuple[float, float]:
    work = Work(shape, round(model_weight_bytes(shape)), 2)
    work.add(ScheduledBatch(list(items)))
    return work.flops, work.read_bytes - step_weight_bytes(
        shape, sum(it.num_new_tokens + len(it.drafts) for it in items)
    )


def test_a_decode_computes_every_parameter_once_and_attends_to_what_came_before_and_to_itself() -> None:
    flops, kv_read = sums(item(10, 1), item(20, 1))
    assert flops == 2 * 2 * active_parameters(SHAPE) + 2 * HEAD + ATTENTION * (11 + 21)
    assert kv_read == pytest.approx(KV_BYTES * (11 + 21))


def test_a_chunk_of_a_prompt_reads_its_past_once_and_attends_token_by_token() -> None:
    flops, kv_read = sums(item(7, 1), item(4, 3, logits=0))
    assert flops == 2 * 4 * active_parameters(SHAPE) + HEAD + ATTENTION * (8 + 5 + 6 + 7)
    assert kv_read == pytest.approx(KV_BYTES * (8 + 7))


def test_guessed_tokens_are_computed_like_others() -> None:
    assert sums(item(7, 1, logits=3, drafts=2)) == sums(item(7, 3, logits=3))


def test_a_step_of_more_tokens_reads_more_experts() -> None:
    experts = SHAPE._replace(num_experts=8, experts_per_token=2)
    work, read = Work(experts, round(model_weight_bytes(experts)), 2), []
    for count in (1, 4):
        before = work.read_bytes
        work.add(ScheduledBatch([item(0, 1) for _ in range(count)]))
        read.append(work.read_bytes - before - count * KV_BYTES)
    assert read == pytest.approx([step_weight_bytes(experts, 1), step_weight_bytes(experts, 4)])
    assert read[0] < read[1] < model_weight_bytes(experts)


def test_sums_only_grow() -> None:
    work = Work(SHAPE, 1000, 2)
    work.add(ScheduledBatch([item(0, 5)]))
    once = work.flops, work.read_bytes
    work.add(ScheduledBatch([item(0, 5)]))
    assert (work.flops, work.read_bytes) == (2 * once[0], 2 * once[1])
