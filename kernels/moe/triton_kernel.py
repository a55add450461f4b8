"""The experts of a layer on a GPU: routing, gate and up, down, and the sum, each a launch; see the kernels' modules."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import triton

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor
from kernels.linear import DeviceWeight, PackedWeight
from kernels.linear.device_weight import SPAN
from kernels.moe.experts import Experts
from kernels.moe.triton_matmul import down_kernel, gate_up_kernel, sum_kernel
from kernels.moe.triton_routing import Routes, route, routing_variants, signature
from kernels.tuning import choose


class Tile(NamedTuple):
    """block_k is in bytes of the activations' type; quantised weights come in spans of columns instead."""

    block_n: int
    block_k: int
    num_warps: int
    num_stages: int


# By rows of a tile: few rows stream weights, many keep the matrix units busy. The first ones fit every GPU.
TILES = {
    16: (Tile(32, 256, 4, 4), Tile(64, 256, 4, 3), Tile(32, 512, 4, 3)),
    32: (Tile(64, 256, 4, 3), Tile(64, 128, 4, 4)),
    64: (Tile(128, 128, 4, 3), Tile(128, 128, 4, 4), Tile(128, 128, 8, 4)),
    128: (Tile(128, 128, 8, 3), Tile(128, 128, 8, 4), Tile(256, 128, 8, 3), Tile(256, 128, 8, 4)),
}
# A group's products are summed on their own before they are scaled, which takes as many registers again.
QUANTISED_TILES = {
    16: (Tile(64, 0, 4, 5), Tile(32, 0, 4, 6), Tile(128, 0, 4, 4)),
    32: (Tile(64, 0, 4, 4), Tile(64, 0, 4, 3)),
    64: (Tile(64, 0, 4, 3), Tile(128, 0, 8, 3)),
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
    """The rows of a tile: half as many again as an expert has on average, so that most experts are one tile, and their
    weights are read once. What that leaves empty costs nothing as long as it is the reading that takes the time."""
    wanted = 3 * rows * experts.top_k // (2 * experts.count)
    sizes = min(_tiles_of(experts.gate_up), _tiles_of(experts.down), key=len)
    return next((size for size in sizes if size >= wanted), max(sizes))


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
    y = x.new_empty(len(routes.pairs), width)
    n = experts.count * 2 * width
    weight, group = _held(experts.gate_up)

    def launch(tile: Tile) -> torch.Tensor:
        gate_up_kernel[(routes.max_tiles * triton.cdiv(2 * width, tile.block_n),)](
            *(x, *weight, experts.gate_up_bias, routes.pairs, routes.tiles, y),
            *(routes.max_tiles, n, x.shape[1], width),
            *(experts.top_k, experts.activation, group),
            **_blocks(x, experts.gate_up, routes, tile),
        )
        return y

    launch(
        choose(
            "moe_gate_up", _key(x, experts.gate_up, experts, routes), _tiles_of(experts.gate_up)[routes.block_m], launch
        )
    )
    return y


def _down(x: torch.Tensor, experts: Experts, routes: Routes, hidden: int) -> torch.Tensor:
    """x [places, width] to [rows * top_k, hidden]."""
    y = x.new_empty(len(routes.weights), hidden)
    weight, group = _held(experts.down)

    def launch(tile: Tile) -> torch.Tensor:
        down_kernel[(routes.max_tiles * triton.cdiv(hidden, tile.block_n),)](
            *(x, *weight, experts.down_bias, routes.pairs, routes.tiles, routes.weights, y),
            *(routes.max_tiles, experts.count * hidden, x.shape[1], hidden),
            group,
            **_blocks(x, experts.down, routes, tile),
        )
        return y

    launch(choose("moe_down", _key(x, experts.down, experts, routes), _tiles_of(experts.down)[routes.block_m], launch))
    return y


def _held(weight: torch.Tensor | DeviceWeight | PackedWeight) -> tuple[tuple[torch.Tensor | None, ...], int]:
    """Codes, scales, offsets, and the columns of a group; 0: all. FP8 as bytes: not every GPU knows the type."""
    if not isinstance(weight, DeviceWeight):
        return (cast(torch.Tensor, weight), None, None), 0
    codes = weight.codes.view(torch.uint8) if weight.codes.dtype == torch.float8_e4m3fn else weight.codes
    return (codes, weight.scales, weight.offsets), 0 if weight.group == weight.k else weight.group


def _tiles_of(weight: object) -> dict[int, tuple[Tile, ...]]:
    return QUANTISED_TILES if isinstance(weight, DeviceWeight) else TILES


def _blocks(x: torch.Tensor, weight: object, routes: Routes, tile: Tile) -> dict[str, Any]:
    step = SPAN if isinstance(weight, DeviceWeight) else tile.block_k // x.element_size()
    return {
        "EVEN_K": x.shape[1] % step == 0,
        "BLOCK_M": routes.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_K": step,
        "num_warps": tile.num_warps,
        "num_stages": tile.num_stages,
    }


def _key(x: torch.Tensor, weight: Any, experts: Experts, routes: Routes) -> tuple[object, ...]:
    """Batches of nearly as many rows share a choice."""
    kind = (
        weight.dtype if isinstance(weight, torch.Tensor) else (weight.codes.dtype, weight.group, weight.offsets is None)
    )
    return (triton.next_power_of_2(len(routes.weights)), *_shape(weight), experts.count, str(x.dtype), str(kind))


def _sum(x: torch.Tensor, residual: torch.Tensor | None, y: torch.Tensor, top_k: int) -> None:
    hidden, padded = y.shape[1], triton.next_power_of_2(top_k)
    block = max(4096 // padded, 64)
    sum_kernel[(len(y), triton.cdiv(hidden, block))](
        x, residual, y, hidden, TOP_K=top_k, TOP_K_PADDED=padded, BLOCK=block
    )


def variants() -> list[Variant]:
    """In bfloat16: Qwen3-30B-A3B for few rows and many, and gpt-oss 20B, whose widths are no powers of two."""
    routing = [variant for rows in (1, 16, 8192) for variant in routing_variants(rows, count=128, top_k=8)]
    qwen3: dict[str, Any] = {"hidden": 2048, "width": 768, "top_k": 8, "activation": "silu"}
    gpt_oss: dict[str, Any] = {"hidden": 2880, "width": 2880, "top_k": 4, "activation": "clamped_silu"}
    products = [
        *(_products(rows, "plain", "*bf16", 0, **qwen3) for rows in (16, 64, 128)),
        _products(16, "plain", "*bf16", 0, **gpt_oss),
        *(_products(rows, "int4 in groups of 128", "*i32", 128, **qwen3) for rows in (16, 64)),
        _products(16, "fp8 in groups of 128", "*u8", 128, **qwen3),
        _products(16, "int8 in groups of 32", "*i8", 32, **gpt_oss),
    ]
    return [*routing, *(each for pair in products for each in pair), _sum_variant(top_k=8)]


def _products(
    rows: int, kind: str, codes: str, group: int, *, hidden: int, width: int, top_k: int, activation: str
) -> list[Variant]:
    """Both products with the first tile for so many rows, with biases."""
    gated = {"TOP_K": top_k, "ACTIVATION": activation}
    return [
        _variant(gate_up_kernel, f"gate_up, {kind}, {hidden} columns", rows, codes, group, hidden, gated),
        _variant(down_kernel, f"down, {kind}, {width} columns", rows, codes, group, width, {}),
    ]


def _variant(kernel: Any, name: str, rows: int, codes: str, group: int, k: int, constants: dict[str, Any]) -> Variant:
    tile = (TILES if codes == "*bf16" else QUANTISED_TILES)[rows][0]
    block_k = tile.block_k // 2 if codes == "*bf16" else SPAN
    constants |= {"GROUP": group, "EVEN_K": k % block_k == 0}
    constants |= {"BLOCK_M": rows, "BLOCK_N": tile.block_n, "BLOCK_K": block_k, "offsets_ptr": None}
    if codes == "*bf16":
        constants["scales_ptr"] = None
    return Variant(
        name=f"{name}, tiles of {rows} x {tile.block_n}",
        kernel=kernel,
        signature=signature(
            *(kernel, constants),
            weight_ptr=codes,
            scales_ptr="*fp16",
            bias_ptr="*fp32",
            pairs_ptr="*i32",
            tiles_ptr="*i32",
            shares_ptr="*fp32",
        ),
        constants=constants,
        multiples=("n", "hidden", "width"),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        wide=group != 32,  # a step's 2 KiB are 8 bytes for each of an AMD GPU's 256 threads
        spills=16 if group == 32 else 0,  # of addresses, once: ptxas has 80 registers in use, and could take more
    )


def _sum_variant(top_k: int) -> Variant:
    constants = {"TOP_K": top_k, "TOP_K_PADDED": top_k, "BLOCK": 4096 // top_k}
    return Variant("sum", sum_kernel, signature(sum_kernel, constants), constants, multiples=("hidden",))
