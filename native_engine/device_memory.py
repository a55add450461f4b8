"""How many KV blocks a GPU's memory holds beside the weights and a step, by what was measured at the start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backends.capacity import kv_budget_bytes, kv_bytes_per_token, num_kv_blocks
from native_engine.config import BLOCK_SIZE, EngineConfig
from native_engine.loading.model_config import ModelConfig
from native_engine.sizing import ConfigurationError

_MIB = 2**20
SPARE = 256 * _MIB  # of what is free: for what the driver rounds up, and for what libraries may still take


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes. `total`: of the device. `free`: what nobody holds, after a step of the largest shape has run, so that this
    process holds its peak: `weights`, and `working` for activations and what kernels and libraries keep. `graphs`: what
    recorded steps will take. What other processes hold is in none of them, but missing from `free`."""

    total: int
    free: int
    weights: int
    working: int
    graphs: int = 0


def cache_budget(measured: Measured, utilisation: float) -> float:
    """Bytes for the KV cache: what this process may have in all, less what it has, and no more than is free. Negative
    where the rest does not fit already."""
    share = kv_budget_bytes(measured.total, utilisation, measured.weights, measured.working + measured.graphs)
    return min(share, _left(measured))


def _left(measured: Measured) -> int:
    return measured.free - measured.graphs - SPARE


def num_device_blocks(config: EngineConfig, model: ModelConfig, longest: int, element: int, measured: Measured) -> int:
    """Blocks of the cache, `element` bytes a number. Raises ConfigurationError where not even one request of `longest`
    tokens fits; it says what would."""
    per_token = kv_bytes_per_token(model.num_layers, model.num_kv_heads, model.head_dim, element)
    wanted = config.max_num_seqs * -(-longest // BLOCK_SIZE)
    budget = cache_budget(measured, config.gpu_memory_utilization)
    if config.kv_cache_memory is not None:
        budget = min(config.kv_cache_memory, _left(measured))
    blocks = num_kv_blocks(budget, per_token, BLOCK_SIZE)
    if blocks * BLOCK_SIZE < longest:
        needed = -(-longest // BLOCK_SIZE) * BLOCK_SIZE * per_token
        ways = "; ".join(_ways_out(config, measured, budget, per_token, element, needed))
        raise ConfigurationError(
            f"a request of {longest} tokens needs {needed / _MIB:.0f} MiB of KV cache, but {_told(config, measured)} "
            f"{max(budget, 0) / _MIB:.0f} MiB. What would fit: {ways}"
        )
    return min(blocks, wanted)


def _told(config: EngineConfig, measured: Measured) -> str:
    if config.kv_cache_memory is not None:
        given, left = config.kv_cache_memory / _MIB, _left(measured) / _MIB
        return f"--kv-cache-memory gives {given:.0f} MiB and the GPU has {left:.0f} left, so there are"
    others = measured.total - measured.free - measured.weights - measured.working
    return (
        f"of the GPU's {measured.total / _MIB:.0f} MiB (--gpu-memory-utilization {config.gpu_memory_utilization:g}; "
        f"others hold {max(others, 0) / _MIB:.0f}) the weights take {measured.weights / _MIB:.0f}, a step "
        f"{measured.working / _MIB:.0f} and CUDA graphs {measured.graphs / _MIB:.0f}, which leaves"
    )


def _ways_out(
    config: EngineConfig, measured: Measured, budget: float, per_token: float, element: int, needed: float
) -> Iterator[str]:
    """Each in numbers, and each enough by itself."""
    if shorter := num_kv_blocks(budget, per_token, BLOCK_SIZE) * BLOCK_SIZE:
        yield f"--max-model-len {shorter}"
    halved = num_kv_blocks(budget, per_token / element, BLOCK_SIZE) * BLOCK_SIZE
    if element > 1 and halved:
        yield f"--kv-cache-dtype fp8, which holds {halved} tokens"
    if config.kv_cache_memory is not None:
        yield f"--kv-cache-memory {-(-int(needed) // _MIB)}MiB, with that much free"
        return
    if fewer := _fewer(config, measured, needed - budget):
        yield f"--max-num-seqs {fewer[0]} --max-num-batched-tokens {fewer[1]}"
    share = (needed - budget) / measured.total + config.gpu_memory_utilization
    if share <= 1 and _left(measured) >= needed:
        yield f"--gpu-memory-utilization {share + 0.005:.2f}"
    yield "weights in fewer bits (--quantization fp8, int8 or int4), or a GPU with more memory"


def _fewer(config: EngineConfig, measured: Measured, missing: float) -> tuple[int, int] | None:
    """Sequences and tokens of a step so much smaller, by halves, that what it works with leaves `missing` bytes more:
    activations and graphs grow with the rows of a step."""
    seqs, tokens, spare = config.max_num_seqs, config.max_num_batched_tokens, measured.working + measured.graphs
    left = float(spare)
    while spare - left < missing:
        if seqs == 1:
            return None
        seqs, tokens, left = seqs // 2, max(tokens // 2, seqs // 2), left / 2
    return seqs, tokens
