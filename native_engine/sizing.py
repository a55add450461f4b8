"""How long a request, how many KV blocks and how many threads: the settings held against the model and the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from backends.capacity import kv_bytes_per_token, num_kv_blocks
from native_engine.config import BLOCK_SIZE, EngineConfig
from native_engine.loading.model_config import ModelConfig

DEFAULT_CPU_CACHE_BYTES = 4 * 2**30  # memory is taken page by page as blocks are first used


class ConfigurationError(ValueError):
    """The settings cannot hold on this machine for this model; the message says what would."""


def num_threads(config: EngineConfig) -> int:
    """Threads of the native pool: as asked, or one for every core that this process may use, shared with its ranks."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return config.num_threads or max(1, (usable or 1) // config.tensor_parallel_size)


def max_model_len(config: EngineConfig, model: ModelConfig) -> int:
    """Tokens of the longest request. Raises ConfigurationError past what the model was trained for, and past what this
    engine computes as the model's authors do."""
    if config.max_model_len is not None and config.max_model_len > model.max_position:
        raise ConfigurationError(
            f"--max-model-len is {config.max_model_len}; {model.name} holds at most {model.max_position} tokens"
        )
    longest = config.max_model_len or model.max_position
    for limit, habit in _exact_up_to(model):
        if longest > limit:
            raise ConfigurationError(
                f"{model.name} {habit}, which this engine cannot do yet: set --max-model-len to at most {limit} "
                f"(it is {longest})"
            )
    return longest


def _exact_up_to(model: ModelConfig) -> Iterator[tuple[int, str]]:
    """Lengths up to which a model is what this engine computes, and what it does past them."""
    scaling = model.rope_scaling or {}
    if scaling.get("rope_type") == "longrope":
        original = scaling["original_max_position_embeddings"]
        yield original, f"has other rotary frequencies (longrope) in texts of more than {original} tokens"


def num_cache_blocks(
    config: EngineConfig, model: ModelConfig, longest: int, cache_bytes: int, weight_bytes: int
) -> int:
    """Blocks that fit the memory. Raises ConfigurationError where not even one request of `longest` tokens does."""
    per_token = kv_bytes_per_token(model.num_layers, model.num_kv_heads, model.head_dim, cache_bytes)
    wanted = config.max_num_seqs * -(-longest // BLOCK_SIZE)
    budget = config.kv_cache_memory or default_cache_bytes(config, weight_bytes)
    blocks = min(wanted, num_kv_blocks(budget, per_token, BLOCK_SIZE))
    if blocks * BLOCK_SIZE < longest:
        needed = -(-longest // BLOCK_SIZE) * BLOCK_SIZE * per_token
        shorter = f", or set --max-model-len to at most {blocks * BLOCK_SIZE}" if blocks else ""
        raise ConfigurationError(
            f"a request of {longest} tokens needs {needed / 2**20:.4g} MiB of KV cache, but there are "
            f"{budget / 2**20:.4g} MiB: give more by --kv-cache-memory{shorter}"
        )
    return blocks


def num_host_blocks(config: EngineConfig, model: ModelConfig, cache_bytes: int) -> int:
    """Blocks of the host tier."""
    per_token = kv_bytes_per_token(model.num_layers, model.num_kv_heads, model.head_dim, cache_bytes)
    return num_kv_blocks(config.kv_offload_memory, per_token, BLOCK_SIZE)


def default_cache_bytes(config: EngineConfig, weight_bytes: int) -> int:
    """Without --kv-cache-memory: the share of the free memory that --gpu-memory-utilization allows, at most 4 GiB.
    Ranks of one model share the memory."""
    free = psutil.virtual_memory().available // config.tensor_parallel_size
    return max(0, min(int(free * config.gpu_memory_utilization) - weight_bytes, DEFAULT_CPU_CACHE_BYTES))
