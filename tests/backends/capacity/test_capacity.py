"""The planner's arithmetic against worked examples, to the digit they are given in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends import capacity as c

EXAMPLES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "capacity.json").read_text())
THROUGHPUT = EXAMPLES["throughput"]
MEMORY = EXAMPLES["memory"]


def machine() -> dict[str, float]:
    per_token = c.kv_bytes_per_token(
        THROUGHPUT["num_layers"], THROUGHPUT["num_kv_heads"], THROUGHPUT["head_dim"], THROUGHPUT["kv_dtype_bytes"]
    )
    return {
        "active_weight_bytes": THROUGHPUT["active_weight_bytes"],
        "kv_bytes_per_request": per_token * THROUGHPUT["context_tokens"],
        "bandwidth_bytes_per_s": THROUGHPUT["bandwidth_bytes_per_s"],
    }


def test_the_kv_cache_of_a_request() -> None:
    assert machine()["kv_bytes_per_request"] == THROUGHPUT["kv_bytes_per_request"]


def test_the_throughput_table() -> None:
    batches = [row["batch"] for row in THROUGHPUT["rows"]]
    rows = c.throughput_rows(batches, target_tok_s=THROUGHPUT["target_tok_s"], **machine())
    shown = [
        {
            "batch": row.batch,
            "total_tok_s": round(row.total_tok_s),
            "per_user_tok_s": round(row.per_user_tok_s),
            "meets_target": row.meets_target,
        }
        for row in rows
    ]
    assert shown == THROUGHPUT["rows"]


def test_fifty_users_one_by_one_and_together() -> None:
    expected = THROUGHPUT["fifty_users"]
    alone, together = c.step_seconds(1, **machine()), c.step_seconds(50, **machine())
    sequential = c.sequential_seconds(50, THROUGHPUT["output_tokens"], alone)
    batched = c.batched_seconds(THROUGHPUT["output_tokens"], together)
    assert round(sequential, 1) == expected["sequential_last_done_s"]
    assert round(batched, 1) == expected["batched_last_done_s"]
    assert round(c.total_tok_s(50, together)) == expected["batched_total_tok_s"]
    assert round(c.per_user_tok_s(together)) == expected["batched_per_user_tok_s"]
    assert round(sequential / batched, 1) == expected["speedup"]
    assert round(together * THROUGHPUT["bandwidth_bytes_per_s"] / 1e9, 1) == expected["step_bytes_gb"]
    assert round(50 * machine()["kv_bytes_per_request"] / 1e9, 1) == expected["kv_bytes_gb"]


def test_the_largest_batch_is_the_last_that_meets_the_target() -> None:
    target = THROUGHPUT["target_tok_s"]
    batch = c.largest_batch(target, **machine())
    assert c.per_user_tok_s(c.step_seconds(batch, **machine())) >= target
    assert c.per_user_tok_s(c.step_seconds(batch + 1, **machine())) < target
    assert c.largest_batch(1000, **machine()) == 0


@pytest.mark.parametrize("row", MEMORY["rows"], ids=lambda row: f"{row['model']} on {row['vram_gib']} GiB")
def test_the_memory_table(row: dict[str, Any]) -> None:
    weights = c.weight_bytes(row["params"])
    per_token = c.kv_bytes_per_token(row["num_layers"], MEMORY["num_kv_heads"], MEMORY["head_dim"], 2)
    budget = c.kv_budget_bytes(row["vram_gib"] * c.GIB, MEMORY["utilisation"], weights)
    tokens = MEMORY["tokens_per_conversation"]
    assert round(weights / c.GIB, 1) == row["weights_gib"]
    assert per_token / c.KIB == row["kv_kib_per_token"]
    assert round(budget / c.GIB, 1) == row["kv_budget_gib"]
    assert round(c.conversations_held(budget, per_token, tokens), 1) == row["conversations_bf16"]
    assert round(c.conversations_held(budget, per_token / 2, tokens), 1) == row["conversations_fp8"]


def test_blocks_are_whole_and_never_negative() -> None:
    assert c.num_kv_blocks(16 * 100 * 10, 100) == 10
    assert c.num_kv_blocks(16 * 100 * 10 - 1, 100) == 9
    assert c.num_kv_blocks(-1, 100) == 0
    assert c.conversations_held(-1, 100, 100) == 0
