"""Which part of a tensor each rank reads, in every format of a file; and what cannot be shared out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.linear.formats import FORMATS, OWN_GROUPS
from native_engine.loading.expert_config import ExpertConfig
from native_engine.loading.model_config import ModelConfig
from native_engine.loading.raw import RawTensor
from native_engine.loading.weights import Weights
from native_engine.parallel.sharding import cut_of, has, rank_config
from native_engine.parallel.weights import shard, take
from native_engine.quantization.dequantize import dequantize
from native_engine.sizing import ConfigurationError

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=101,
    hidden_size=96,
    intermediate_size=1024,
    num_layers=1,
    num_heads=8,
    num_kv_heads=2,
    head_dim=256,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    rope_scaling=None,
    max_position=64,
    tie_embeddings=True,
    qk_norm=True,
    bos_token_id=None,
    eos_token_ids=frozenset(),
    chat_template=None,
    name="tiny",
    experts=ExpertConfig(4, 2, 1536, True),
)
LAYER = "model.layers.0."
Q, K, INSIDE, EXPERT = 8 * 256, 2 * 256, 1024, 1536
# Rows and columns of each matrix, and the parts of its rows that lie one behind the other.
BY_ROWS = {
    "self_attn.q_proj": [Q],
    "self_attn.k_proj": [K],
    "self_attn.v_proj": [K],
    "self_attn.qkv_proj": [Q, K, K],
    "mlp.gate_proj": [INSIDE],
    "mlp.up_proj": [INSIDE],
    "mlp.gate_up_proj": [INSIDE, INSIDE],
    "mlp.experts.3.gate_proj": [EXPERT],
    "mlp.experts.3.up_proj": [EXPERT],
}
BY_COLUMNS = {"self_attn.o_proj": Q, "mlp.down_proj": INSIDE, "mlp.experts.3.down_proj": EXPERT}
TYPES = sorted({*FORMATS, "Q2_K", "Q3_K"})


def random_rows(type_name: str, rows: int, columns: int, seed: int = 0) -> RawTensor:
    """Any bytes are a matrix; those of scales are of numbers that are finite."""
    random = np.random.default_rng(seed)
    if type_name not in OWN_GROUPS:
        kind = gguf.GGMLQuantizationType[type_name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 60, (rows, columns // block * size), np.uint8)
        return RawTensor(type_name, (rows, columns), data)
    form = FORMATS[type_name]
    data = random.integers(0, 0x7E, (rows, form.bytes_per_row(columns)), np.uint8)
    width = OWN_GROUPS[type_name] or columns
    groups = data.reshape(rows, columns // width, -1)
    groups[..., :4] = random.random((*groups.shape[:2], 1), np.float32).view(np.uint8)
    return RawTensor(type_name, (rows, columns), data)


def vector(count: int) -> RawTensor:
    values = np.arange(count, dtype=np.float32)
    return RawTensor("F32", (count,), values.view(np.uint8).reshape(1, -1))


def weights_of(tensors: dict[str, RawTensor], config: ModelConfig = CONFIG) -> Weights:
    readers: dict[str, Callable[[], RawTensor]] = {name: lambda raw=raw: raw for name, raw in tensors.items()}  # type: ignore[misc]
    return Weights(Path("model"), config, readers)


def expected_rows(whole: np.ndarray, parts: list[int], rank: int, size: int) -> np.ndarray:
    """Of more ranks than KV heads, neighbours have the same one."""
    kept, start = [], 0
    for count in parts:
        heads = CONFIG.num_kv_heads if count == K else count
        each, share = count // heads, max(1, heads // size)
        first = start + rank * heads // size * each
        kept.append(whole[first : first + share * each])
        start += count
    return np.concatenate(kept)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.sampled_from([*BY_ROWS]),
    st.sampled_from([(0, 2), (1, 2), (0, 4), (2, 4), (3, 4)]),
)
def test_rows_of_every_format_are_the_rows_of_the_dequantised_matrix(
    type_name: str, part: str, place: tuple[int, int]
) -> None:
    whole = random_rows(type_name, sum(BY_ROWS[part]), 256)
    cut = cut_of(CONFIG, f"{LAYER}{part}.weight", *place)
    assert cut is not None
    assert np.array_equal(
        dequantize(take(whole, cut)), expected_rows(dequantize(whole), BY_ROWS[part], *place), equal_nan=True
    )


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(TYPES), st.sampled_from([*BY_COLUMNS]), st.sampled_from([(0, 2), (1, 2)]))
def test_columns_of_every_format_are_the_columns_of_the_dequantised_matrix(
    type_name: str, part: str, place: tuple[int, int]
) -> None:
    whole, (rank, size) = random_rows(type_name, 3, BY_COLUMNS[part]), place
    cut = cut_of(CONFIG, f"{LAYER}{part}.weight", rank, size)
    assert cut is not None
    half = BY_COLUMNS[part] // size
    expected = dequantize(whole)[:, rank * half : (rank + 1) * half]
    assert np.array_equal(dequantize(take(whole, cut)), expected, equal_nan=True)


@pytest.mark.parametrize("rank", range(4))
def test_biases_and_sinks_follow_their_matrices_and_what_is_summed_has_its_bias_once(rank: int) -> None:
    names = {f"{LAYER}{part}.bias": sum(rows) for part, rows in BY_ROWS.items()}
    names |= {
        f"{LAYER}self_attn.sinks.weight": 8,
        f"{LAYER}self_attn.o_proj.bias": 96,
        f"{LAYER}mlp.down_proj.bias": 96,
    }
    names |= {f"{LAYER}mlp.experts.3.down_proj.bias": 96, f"{LAYER}mlp.gate.bias": 4}
    part = shard(weights_of({name: vector(count) for name, count in names.items()}), rank, 4)
    values = {name: dequantize(part.get(name)) for name in part.names() if name != "lm_head.weight"}
    for name, rows in BY_ROWS.items():
        expected = expected_rows(np.arange(sum(rows), dtype=np.float32), rows, rank, 4)
        assert np.array_equal(values.pop(f"{LAYER}{name}.bias"), expected), name
    assert np.array_equal(values.pop(f"{LAYER}self_attn.sinks.weight"), [2 * rank, 2 * rank + 1])
    assert len(values.pop(f"{LAYER}mlp.gate.bias")) == 4
    assert {name: len(each) for name, each in values.items()} == (
        {f"{LAYER}{name}.bias": 96 for name in BY_COLUMNS} if rank == 0 else {}
    )


@pytest.mark.parametrize("type_name", TYPES)
def test_the_head_is_split_by_words_and_padded_with_words_of_zeroes(type_name: str) -> None:
    table = random_rows(type_name, CONFIG.vocab_size, 256)
    weights = weights_of({"model.embed_tokens.weight": table}, replace(CONFIG, hidden_size=256))
    parts = [dequantize(shard(weights, rank, 4).get("lm_head.weight")) for rank in range(4)]
    assert [len(part) for part in parts] == [26] * 4
    joined = np.concatenate(parts)
    assert np.array_equal(joined[:101], dequantize(table), equal_nan=True)
    assert not joined[101:].any()
    assert shard(weights, 1, 4).get("model.embed_tokens.weight") is table


def test_norms_routers_and_scales_of_the_cache_are_whole() -> None:
    names = ["input_layernorm.weight", "self_attn.q_norm.weight", "mlp.gate.weight", "self_attn.k_scale"]
    assert [cut_of(CONFIG, LAYER + name, 1, 2) for name in names] == [None] * 4
    assert all(has(LAYER + name, 1) for name in names)


def test_a_rank_computes_its_share_of_heads_and_widths_and_a_head_of_its_own() -> None:
    part = rank_config(CONFIG, 4)
    assert (part.num_heads, part.num_kv_heads, part.head_dim) == (2, 1, 256)
    assert part.experts is not None
    assert (part.intermediate_size, part.experts.width, part.vocab_size) == (256, 384, 101)
    assert not part.tie_embeddings
    assert rank_config(CONFIG, 1) == CONFIG


@pytest.mark.parametrize(
    ("changes", "size", "told"),
    [
        (
            {},
            3,
            "3, but tiny has 8 attention heads and 2 KV heads and a feed-forward 1024 wide; expected one of 1, 2, 4",
        ),
        ({"num_heads": 12, "num_kv_heads": 6}, 4, "4, but tiny has 6 KV heads; expected one of 1, 2$"),
        ({"intermediate_size": 1022}, 4, "4, but tiny has a feed-forward 1022 wide; expected one of 1, 2$"),
        ({}, 16, "16, but tiny has 8 attention heads; expected one of 1, 2, 4, 8$"),
    ],
)
def test_what_heads_or_widths_cannot_hold_is_refused_with_the_sizes_that_would_do(
    changes: dict[str, int], size: int, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"--tensor-parallel-size is {told}"):
        rank_config(replace(CONFIG, **changes), size)  # type: ignore[arg-type]


def test_blocks_that_would_be_cut_are_refused_with_the_sizes_that_would_do() -> None:
    name = f"{LAYER}mlp.down_proj.weight"
    part = shard(weights_of({name: random_rows("Q4_K", 96, 1024)}), 1, 8)
    told = f"8, but {name} is of type Q4_K, in blocks of 256 columns, of which 128 are no multiple; "
    told += "expected one of 1, 2, 4"
    with pytest.raises(ConfigurationError, match=f"^--tensor-parallel-size is {re.escape(told)}$"):
        part.get(name)


def test_an_act_order_weight_keeps_its_order_by_rows_and_is_refused_by_columns() -> None:
    order = np.random.default_rng(0).permutation(256).astype(np.int32)
    up, down = f"{LAYER}mlp.up_proj.weight", f"{LAYER}mlp.down_proj.weight"
    wide = np.random.default_rng(0).permutation(1024).astype(np.int32)
    tensors = {
        up: replace(random_rows("INT4_64", 1024, 256), order=order),
        down: replace(random_rows("INT4_64", 96, 1024), order=wide),
    }
    part = shard(weights_of(tensors, replace(CONFIG, hidden_size=256)), 1, 2)
    assert np.array_equal(dequantize(part.get(up)), dequantize(tensors[up])[512:])
    narrow = shard(weights_of(tensors), 1, 2)
    with pytest.raises(ConfigurationError, match=r"act-order .* expected one of 1$"):
        narrow.get(down)
