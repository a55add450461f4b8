"""Names and bare figures become a plan, or are refused by the name of what is wrong."""

from __future__ import annotations

import math

import pytest

from backends.capacity import MACHINES, SHAPES
from backends.capacity.question import KV_BYTES, WEIGHTS, BadQuestion, Incomplete, Question, answer, read_measurement

BARE = Question(layers=36, kv_heads=8, head_dim=128)


def test_every_model_and_machine_of_the_lists_can_be_planned_for() -> None:
    for model in SHAPES:
        for hardware in MACHINES:
            assert answer(Question(model=model, hardware=hardware)).rows


def test_a_shape_of_ones_own_is_as_good_as_its_name() -> None:
    named = answer(Question(model="qwen3-8b", hardware="h100"))
    assert answer(Question(model=SHAPES["qwen3-8b"], hardware="h100")) == named


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kv_cache_dtype", KV_BYTES)
def test_the_smaller_the_format_the_more_conversations(weights: str, kv_cache_dtype: str) -> None:
    made = answer(Question(model="qwen3-8b", hardware="l4", weights=weights, kv_cache_dtype=kv_cache_dtype))
    widest = answer(Question(model="qwen3-8b", hardware="l4"))
    assert made.memory is not None
    assert widest.memory is not None
    assert next(iter(made.memory.conversations)) == kv_cache_dtype
    held = made.memory.conversations[kv_cache_dtype]
    assert (held > widest.memory.conversations["bf16"]) is ((weights, kv_cache_dtype) != ("bf16", "bf16"))


@pytest.mark.parametrize(
    ("question", "name"),
    [
        (Question(model="qwen9", hardware="h100"), "model"),
        (Question(model="qwen3-8b", hardware="h9"), "hardware"),
        (Question(model="qwen3-8b", hardware="h100", weights="fp4"), "weights"),
        (Question(model="qwen3-8b", hardware="h100", kv_cache_dtype="fp4"), "kv_cache_dtype"),
        (Question(model="qwen3-8b", bandwidth=1e12, gpus=2), "gpus"),
        (Question(model="qwen3-8b", hardware="dgx-spark", gpus=2), "gpus"),
    ],
)
def test_what_cannot_be_planned_with_is_refused_by_its_name(question: Question, name: str) -> None:
    with pytest.raises(BadQuestion) as caught:
        answer(question)
    assert caught.value.name == name


def test_too_little_is_no_plan_and_half_of_it_is_half_a_plan() -> None:
    for question in (Question(), Question(hardware="h100"), BARE, Question(model="qwen3-8b")):
        with pytest.raises(Incomplete):
            answer(question)
    speed = answer(Question(layers=36, kv_heads=8, head_dim=128, active_weight_bytes=3e9, bandwidth=1e12))
    assert (len(speed.rows), speed.memory) == (8, None)
    memory = answer(Question(layers=36, kv_heads=8, head_dim=128, params=8e9, vram_gib=24))
    assert memory.memory is not None
    assert memory.rows == []


@pytest.mark.parametrize("text", ["", "16", "16:", ":3", "0:5", "-1:5", "16:0", "16:nan", "16:inf", "a:b", "1.5:3"])
def test_what_is_no_measurement_is_refused(text: str) -> None:
    with pytest.raises(BadQuestion) as caught:
        read_measurement(text)
    assert caught.value.name == "measured"


def test_a_measurement_is_a_batch_and_its_speed() -> None:
    assert read_measurement("16:463.5") == (16, 463.5)
    assert math.isfinite(read_measurement("1:1e9")[1])
