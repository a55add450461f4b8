"""The frequencies of every scaling against transformers' own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from native_engine.layers.rotary import rotary_tables
from native_engine.loading.rope import rope_of_json

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
YARN = {"factor": 4.0, "original_max_position_embeddings": 512}
LONGROPE = {"short_factor": np.linspace(1, 2, 16).tolist(), "long_factor": np.linspace(2, 9, 16).tolist()}
LONGEST = 2048


@pytest.mark.parametrize("theta", [10000.0, 1e6])
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 4.0},
        {"rope_type": "llama3", **LLAMA3},
        {"rope_type": "yarn", **YARN},
        {"rope_type": "yarn", "factor": 0.5, "original_max_position_embeddings": 512},
        {"rope_type": "yarn", "factor": 4.0},
        {"rope_type": "yarn", **YARN, "beta_fast": 16, "beta_slow": 2, "truncate": False},
        {"rope_type": "yarn", **YARN, "beta_fast": 2, "beta_slow": 2, "truncate": False},
        {"rope_type": "yarn", **YARN, "attention_factor": 1.3},
        {"rope_type": "yarn", **YARN, "mscale": 0.7, "mscale_all_dim": 1.2},
        {"rope_type": "longrope", **LONGROPE, "original_max_position_embeddings": 512},
        {"rope_type": "longrope", **LONGROPE, "original_max_position_embeddings": 512, "factor": 3.0},
        {"rope_type": "longrope", **LONGROPE, "original_max_position_embeddings": 512, "attention_factor": 1.2},
    ],
)
def test_tables_are_those_of_transformers(scaling: dict[str, Any], theta: float) -> None:
    parameters = {"rope_theta": theta, **scaling}
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=LONGEST, rope_parameters=dict(parameters)
    )
    frequencies, size = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"), seq_len=512)
    angles = torch.outer(torch.arange(512).float(), frequencies)
    raw = {"model_type": "llama", "max_position_embeddings": LONGEST, "rope_parameters": parameters}
    tables = rotary_tables(32, *rope_of_json(raw), 512)
    torch.testing.assert_close(tables.cos, angles.cos() * size, atol=1e-4, rtol=0)
    torch.testing.assert_close(tables.sin, angles.sin() * size, atol=1e-4, rtol=0)


def test_both_spellings_of_a_scaling_are_the_same() -> None:
    new = {"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", **LLAMA3}}
    old = {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}}
    common = {"model_type": "llama", "max_position_embeddings": LONGEST}
    assert rope_of_json(common | new) == rope_of_json(common | old) == (5e5, {"rope_type": "llama3", **LLAMA3})


@pytest.mark.parametrize("name", ["su", "yarn"])
def test_the_first_names_of_the_scaling_of_phi3_are_read(name: str) -> None:
    raw = {
        "model_type": "phi3",
        "max_position_embeddings": LONGEST,
        "original_max_position_embeddings": 512,
        "rope_scaling": {"type": name, **LONGROPE},
    }
    expected = {"rope_type": "longrope", **LONGROPE, "original_max_position_embeddings": 512, "factor": 4.0}
    assert rope_of_json(raw) == (10000.0, expected)


def test_an_unknown_scaling_is_refused_by_name_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'spiral' is not supported; known: default, linear, dynamic, llama3, yarn"):
        rotary_tables(32, 10000.0, {"rope_type": "spiral"}, 16)
