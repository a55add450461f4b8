"""The engine's settings: frozen data, and a pure check that returns every fault at once. Knows no model, no device."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

BLOCK_SIZE = 16
GPU_MAX_NUM_SEQS = 256
GPU_MAX_NUM_BATCHED_TOKENS = 8192
EXTRA_LOGITS = 64  # 40 MB of logits in a vocabulary of 152,000
MAX_SPECULATIVE_TOKENS = 32
KV_CACHE_DTYPES = ("auto", "float32", "float16", "bfloat16", "fp8", "fp8_e4m3")
DTYPES = ("auto", "float32", "float16", "bfloat16")
DEVICES = ("auto", "cpu", "gpu")
# auto: as the file is; none: dequantised to dtype; the others: plain weights are quantised while they are loaded.
QUANTIZATIONS = ("auto", "none", "fp8", "int8", "int4", "q8_0", "q4_1", "q4_0")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?", re.IGNORECASE)


class Default(int):
    """A number that nobody asked for: on a GPU another takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Field names are the flags' names: `max_num_seqs` is `--max-num-seqs`. None means: the engine decides."""

    model: str
    max_model_len: int | None = None
    device: str = "auto"
    enforce_eager: bool = False
    max_num_seqs: int = Default(64)
    max_num_batched_tokens: int = Default(512)
    gpu_memory_utilization: float = 0.92
    kv_cache_memory: int | None = None
    kv_offload_memory: int = 0
    block_size: int = BLOCK_SIZE
    enable_prefix_caching: bool = True
    num_speculative_tokens: int = 0
    kv_cache_dtype: str = "auto"
    quantization: str = "auto"
    dtype: str = "auto"
    seed: int | None = None
    num_threads: int | None = None
    tensor_parallel_size: int = 1
    target_tpot: float | None = None  # seconds

    @property
    def max_num_logits(self) -> int:
        """Rows that a step has logits for: one for each sequence, and some more for log probabilities of prompts."""
        return self.max_num_seqs + EXTRA_LOGITS


def on_device(config: EngineConfig, device: str) -> EngineConfig:
    """The settings for "cpu" or "gpu". A GPU takes more sequences, and more tokens a step, where nobody said how many;
    a step has room for a token of every sequence."""
    seqs, tokens = config.max_num_seqs, config.max_num_batched_tokens
    if isinstance(tokens, Default):
        tokens = max(GPU_MAX_NUM_BATCHED_TOKENS if device == "gpu" else tokens, seqs)
    if isinstance(seqs, Default) and device == "gpu":
        seqs = min(GPU_MAX_NUM_SEQS, tokens)
    return replace(config, device=device, max_num_seqs=seqs, max_num_batched_tokens=tokens)


def parse_size(text: str) -> int:
    """Bytes from "4GiB", "512 MB", "1.5g" or "1073741824". KiB and the like are powers of 1024, KB of 1000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a size: {text!r}; expected a number with a unit, such as 4GiB, 512MB or 1073741824")
    number, unit = match.groups()
    return int(float(number) * _UNITS[(unit or "").lower()])


def parse_duration(text: str) -> float:
    """Seconds from "50ms" or "0.05s". A bare number is refused: it could be either."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a duration: {text!r}; expected a number with its unit, such as 50ms or 0.05s")
    number, unit = match.groups()
    return float(number) * (1e-3 if unit == "ms" else 1.0)


def validate(config: EngineConfig) -> list[str]:
    """Every fault of the settings, each naming flag, value and what was expected; empty when all is well."""
    return [*_count_faults(config), *_memory_faults(config), *_choice_faults(config)]


def _count_faults(config: EngineConfig) -> Iterator[str]:
    if not config.model:
        yield _fault("model", config.model, "a model name, a folder or a .gguf file")
    if config.max_model_len is not None and config.max_model_len < 2:
        yield _fault("max_model_len", config.max_model_len, "at least 2 (one prompt token and one output token)")
    if config.max_num_seqs < 1:
        yield _fault("max_num_seqs", config.max_num_seqs, "at least 1")
    grows = isinstance(config.max_num_batched_tokens, Default)
    if config.max_num_batched_tokens < max(config.max_num_seqs, 1) and not grows:
        expected = f"at least max_num_seqs ({config.max_num_seqs}), or a step cannot give every sequence a token"
        yield _fault("max_num_batched_tokens", config.max_num_batched_tokens, expected)
    if not 0 <= config.num_speculative_tokens <= MAX_SPECULATIVE_TOKENS:
        expected = f"0 (none) to {MAX_SPECULATIVE_TOKENS}"
        yield _fault("num_speculative_tokens", config.num_speculative_tokens, expected)
    if config.num_threads is not None and config.num_threads < 1:
        yield _fault("num_threads", config.num_threads, "at least 1")
    if config.tensor_parallel_size < 1:
        yield _fault("tensor_parallel_size", config.tensor_parallel_size, "at least 1: the processes of one model")
    if config.target_tpot is not None and not (math.isfinite(config.target_tpot) and config.target_tpot > 0):
        yield _fault("target_tpot", config.target_tpot, "a positive time, such as 50ms")
    if config.seed is not None and not -(2**63) <= config.seed < 2**64:
        yield _fault("seed", config.seed, "an integer of 64 bits")


def _memory_faults(config: EngineConfig) -> Iterator[str]:
    share = config.gpu_memory_utilization
    if not (math.isfinite(share) and 0 < share <= 1):
        yield _fault("gpu_memory_utilization", share, "above 0 and at most 1")
    if config.kv_cache_memory is not None and config.kv_cache_memory < 1:
        yield _fault("kv_cache_memory", config.kv_cache_memory, "a positive number of bytes, such as 4GiB")
    if config.kv_offload_memory < 0:
        yield _fault("kv_offload_memory", config.kv_offload_memory, "a number of bytes, such as 8GiB; 0: none")
    if config.kv_offload_memory and not config.enable_prefix_caching:
        yield _fault("kv_offload_memory", config.kv_offload_memory, "0 with --no-enable-prefix-caching, which finds it")
    if config.block_size != BLOCK_SIZE:
        yield _fault("block_size", config.block_size, f"{BLOCK_SIZE}, the only size the kernels are built for")


def _choice_faults(config: EngineConfig) -> Iterator[str]:
    choices = (
        ("kv_cache_dtype", config.kv_cache_dtype, KV_CACHE_DTYPES),
        ("quantization", config.quantization, QUANTIZATIONS),
        ("dtype", config.dtype, DTYPES),
        ("device", config.device, DEVICES),
    )
    for field, value, known in choices:
        if value not in known:
            yield _fault(field, value, "one of " + ", ".join(known))


def _fault(field: str, value: object, expected: str) -> str:
    return f"--{field.replace('_', '-')} is {value!r}; expected {expected}"
