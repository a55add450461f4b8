"""The experts of a layer on a GPU: routing, gate and up, down, and the sum, each a launch; see the kernels' modules."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor
from kernels.linear import DeviceWeight, PackedWeight
from kernels.moe.experts import Experts
from kernels.moe.triton_matmul import down_kernel, gate_up_kernel, sum_kernel
from kernels.moe.triton_routing import Routes, route, routing_variants, signature
from kernels.tuning import choose


class Tile(NamedTuple):
    """block_k is in bytes of the activations' type."""

    block_n: int
    block_k: int
    num_warps: int
    num_stages: int


# By rows of a tile: few rows stream weights, many keep the matrix units busy. The first ones fit every GPU.
_TILES = {
    16: (Tile(32, 256, 4, 4), Tile(64, 256, 4, 3), Tile(32, 512, 4, 3)),
    32: (Tile(64, 256, 4, 3), Tile(64, 128, 4, 4)),
    64: (Tile(128, 128, 4, 3), Tile(128, 128, 4, 4), Tile(128, 128, 8, 4)),
    128: (Tile(128, 128, 8, 3), Tile(128, 128, 8, 4), Tile(256, 128, 8, 3), Tile(256, 128, 8, 4)),
}


def moe(x: DeviceTensor, logits: DeviceTensor, experts: Experts, residual: DeviceTensor | None = None) -> DeviceTensor:
    """As kernels.moe.moe. Raises ValueError for experts that do not fit x or the logits."""
    rows, hidden = x.tensor.shape
    width = _checked_width(x.tensor, logits.tensor, experts)
    y = torch.empty_like(x.tensor)
    if not rows:
        return DeviceTensor(y)
    routes = route(logits.tensor, experts.top_k, experts.normalised, block_m(rows, experts))
    h = _gate_up(x.tensor, experts, routes, width)
    h = _down(h, experts, routes, hidden)
    _sum(h, None if residual is None else residual.tensor, y, experts.top_k)
    return DeviceTensor(y)


def block_m(rows: int, experts: Experts) -> int:
    """The rows of a tile: about as many as an expert has on average, so that few places stay empty."""
    average = rows * experts.top_k // experts.count
    return next((size for size in (128, 64, 32) if average >= size), 16)


def _checked_width(x: torch.Tensor, logits: torch.Tensor, experts: Experts) -> int:
    (up_n, up_k), (down_n, down_k) = _shape(experts.gate_up), _shape(experts.down)
    count = experts.count
    if (x.shape[1], logits.shape[1], up_n, down_n) != (up_k, count, count * 2 * down_k, count * up_k):
        raise ValueError(
            f"{count} experts of [{up_n}, {up_k}] and [{down_n}, {down_k}] do not fit {x.shape[1]} columns and "
            f"{logits.shape[1]} router logits"
        )
    return down_k


def _shape(weight: torch.Tensor | DeviceWeight | PackedWeight) -> tuple[int, int]:
    return (weight.shape[0], weight.shape[1]) if isinstance(weight, torch.Tensor) else (weight.n, weight.k)


def _gate_up(x: torch.Tensor, experts: Experts, routes: Routes, width: int) -> torch.Tensor:
    """x [rows, hidden] to [places, width]."""
    hidden = x.shape[1]
    y = x.new_empty(len(routes.pairs), width)

    def launch(tile: Tile) -> None:
        block_k = tile.block_k // x.element_size()
        gate_up_kernel[(routes.max_tiles * triton.cdiv(2 * width, tile.block_n),)](
            x,
            experts.gate_up,
            experts.gate_up_bias,
            routes.pairs,
            routes.tiles,
            y,
            routes.max_tiles,
            hidden,
            width,
            TOP_K=experts.top_k,
            ACTIVATION=experts.activation,
            BIASED=experts.gate_up_bias is not None,
            EVEN_K=hidden % block_k == 0,
            BLOCK_M=routes.block_m,
            BLOCK_N=tile.block_n,
            BLOCK_K=block_k,
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )

    launch(choose("moe_gate_up", _key(x, experts, routes), _TILES[routes.block_m], launch))
    return y


def _down(x: torch.Tensor, experts: Experts, routes: Routes, hidden: int) -> torch.Tensor:
    """x [places, width] to [rows * top_k, hidden]."""
    width = x.shape[1]
    y = x.new_empty(len(routes.weights), hidden)

    def launch(tile: Tile) -> None:
        block_k = tile.block_k // x.element_size()
        down_kernel[(routes.max_tiles * triton.cdiv(hidden, tile.block_n),)](
            x,
            experts.down,
            experts.down_bias,
            routes.pairs,
            routes.tiles,
            routes.weights,
            y,
            routes.max_tiles,
            width,
            hidden,
            BIASED=experts.down_bias is not None,
            EVEN_K=width % block_k == 0,
            BLOCK_M=routes.block_m,
            BLOCK_N=tile.block_n,
            BLOCK_K=block_k,
            num_warps=tile.num_warps,
            num_stages=tile.num_stages,
        )

    launch(choose("moe_down", _key(x, experts, routes), _TILES[routes.block_m], launch))
    return y


def _sum(x: torch.Tensor, residual: torch.Tensor | None, y: torch.Tensor, top_k: int) -> None:
    hidden, padded = y.shape[1], triton.next_power_of_2(top_k)
    block = max(4096 // padded, 64)
    sum_kernel[(len(y), triton.cdiv(hidden, block))](
        x, residual, y, hidden, TOP_K=top_k, TOP_K_PADDED=padded, ADDED=residual is not None, BLOCK=block
    )


def _key(x: torch.Tensor, experts: Experts, routes: Routes) -> tuple[object, ...]:
    weight = experts.gate_up
    return (triton.next_power_of_2(len(routes.weights)), *_shape(weight), experts.count, x.dtype)


def variants() -> list[Variant]:
    """In bfloat16: all sizes of Qwen3-30B-A3B, and gpt-oss 20B where it differs: its widths are no powers of two."""
    routing = [variant for rows in (1, 16, 8192) for variant in routing_variants(rows, count=128, top_k=8)]
    qwen3 = [(rows, _TILES[rows][0], 2048, 768, 8, "silu") for rows in _TILES]
    gpt_oss = [(rows, _TILES[rows][0], 2880, 2880, 4, "clamped_silu") for rows in (16, 128)]
    products = [
        variant
        for rows, tile, hidden, width, top_k, activation in qwen3 + gpt_oss
        for variant in (
            _variant(gate_up_kernel, "gate_up", rows, tile, hidden, {"TOP_K": top_k, "ACTIVATION": activation}),
            _variant(down_kernel, "down", rows, tile, width, {}),
        )
    ]
    return [*routing, *products, _sum_variant(top_k=8)]


def _variant(kernel: Any, name: str, rows: int, tile: Tile, k: int, constants: dict[str, Any]) -> Variant:
    block_k = tile.block_k // 2
    constants = {
        **constants,
        "BIASED": True,
        "EVEN_K": k % block_k == 0,
        "BLOCK_M": rows,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": block_k,
    }
    return Variant(
        name=f"{name}, {k} columns in tiles of {rows} x {tile.block_n} x {block_k}",
        kernel=kernel,
        signature=signature(kernel, constants, shares_ptr="*fp32", pairs_ptr="*i32", tiles_ptr="*i32"),
        constants=constants,
        multiples=("hidden", "width"),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _sum_variant(top_k: int) -> Variant:
    constants = {"TOP_K": top_k, "TOP_K_PADDED": top_k, "ADDED": True, "BLOCK": 4096 // top_k}
    return Variant("sum", sum_kernel, signature(sum_kernel, constants), constants, multiples=("hidden",))
