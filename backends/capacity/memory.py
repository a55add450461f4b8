"""How many tokens, blocks and conversations a memory holds."""

from __future__ import annotations

KIB = 1024
GIB = 1024**3


def weight_bytes(num_parameters: float, bits_per_weight: float = 16) -> float:
    """Bytes of the weights. `bits_per_weight` includes scales: Q4_1 is 5, Q8_0 is 8.5, bf16 is 16."""
    return num_parameters * bits_per_weight / 8


def kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, dtype_bytes: float) -> float:
    """Bytes of KV cache for one token: K and V of every layer. `dtype_bytes` is per element."""
    return 2 * num_layers * num_kv_heads * head_dim * dtype_bytes


def kv_budget_bytes(
    memory_bytes: float, utilisation: float, weight_bytes: float, workspace_bytes: float = 0.0
) -> float:
    """Bytes left for the KV cache; negative where the weights alone do not fit."""
    return memory_bytes * utilisation - weight_bytes - workspace_bytes


def num_kv_blocks(budget_bytes: float, bytes_per_token: float, block_size: int = 16) -> int:
    """Whole blocks of `block_size` tokens within the budget; 0 where not one fits."""
    return max(0, int(budget_bytes // (bytes_per_token * block_size)))


def conversations_held(budget_bytes: float, bytes_per_token: float, tokens_per_conversation: float) -> float:
    """Conversations whose KV cache fits at the same moment, as a fraction; 0 where the budget is negative."""
    return max(0.0, budget_bytes) / bytes_per_token / tokens_per_conversation
