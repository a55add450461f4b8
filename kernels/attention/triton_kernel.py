"""Causal attention over paged keys and values on a GPU: one kernel for the decodes of a step, one for its prefills.

The host never asks the device how long a sequence is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.attention import triton_decode, triton_prefill
from kernels.attention.cache import LayerCache
from kernels.attention.triton_call import Call, Tile
from kernels.device import DeviceStep, DeviceTensor


def attention(
    qkv: DeviceTensor,
    cache: LayerCache,
    step: DeviceStep,
    num_heads: int,
    scale: float,
    window: int | None,
    soft_cap: float | None,
    sinks: torch.Tensor | None,
) -> DeviceTensor:
    """See kernels.attention.attention. Decodes that only fill up a batch get zeros."""
    if cache.keys.stride(2) != 1:
        raise ValueError("on a GPU the dimensions of a key must lie side by side: make the cache with allocate_on")
    q = qkv.tensor
    out = torch.empty(len(q), num_heads * cache.head_dim, dtype=q.dtype, device=q.device)
    call = Call(q, cache, step, num_heads, scale, window, soft_cap, sinks, out)
    if step.num_decodes:
        triton_decode.decode(call)
    if step.num_sequences > step.num_decodes:
        triton_prefill.prefill(call)
    return DeviceTensor(out)


class _Shape(NamedTuple):
    """As a family of models calls the kernels; `absent`: the arguments that it leaves out."""

    name: str
    head_dim: int
    group: int
    absent: tuple[str, ...]
    stored: str = "*bf16"
    min_capability: int = 80


_PLAIN = ("window", "soft_cap", "sinks_ptr")
_SHAPES = (
    _Shape("128", 128, 4, _PLAIN),  # Llama, Qwen3
    _Shape("64, sinks", 64, 8, ("soft_cap",)),  # gpt-oss
    _Shape("256, soft cap", 256, 2, ("sinks_ptr",)),  # Gemma 2
    _Shape("128, bytes of FP8", 128, 4, _PLAIN, "*u8"),
    _Shape("128, FP8", 128, 4, _PLAIN, "*fp8e4nv", 89),
)
_TYPES = {
    **dict.fromkeys(("positions_ptr", "slots_ptr", "starts_ptr", "tables_ptr"), "*i32"),
    **dict.fromkeys(("sums_ptr", "partial_ptr"), "*fp32"),
    **dict.fromkeys(("scale", "soft_cap", "v_scale"), "fp32"),
}


def variants() -> list[Variant]:
    """With the tiles that are tried first, where there are several; decode of one shape is not split."""
    made = []
    for shape in _SHAPES:
        for backend in ("cuda",) if shape.stored == "*fp8e4nv" else ("cuda", "hip"):
            amd = backend == "hip"
            tile = triton_decode.tile_of(shape.group, shape.head_dim, amd)
            whole = {"sums_ptr": None} if shape.name == "64, sinks" else {"sinks_ptr": None}
            constants = {**_constants(shape), **whole, "GROUP_PADDED": tile.rows}
            made.append(_variant(triton_decode.decode_kernel, shape, tile, constants, backend))
            tile = triton_prefill.tiles(shape.group, shape.head_dim, 4096, amd)[0]
            constants = {**_constants(shape), "ROWS": tile.rows}
            made.append(_variant(triton_prefill.prefill_kernel, shape, tile, constants, backend))
    splits = {"SPLITS_PADDED": 32, "sinks_ptr": None, "window": None, "DIM": 128, "DIM_PADDED": 128}
    tile = Tile(1, 64, triton_decode.warps_to_merge(32, 128), 1)
    return [*made, *(_variant(triton_decode.merge_kernel, _SHAPES[0], tile, splits, each) for each in ("cuda", "hip"))]


def _constants(shape: _Shape) -> dict[str, Any]:
    return {
        **dict.fromkeys(shape.absent),
        "GROUP": shape.group,
        "DIM": shape.head_dim,
        "DIM_PADDED": triton.next_power_of_2(shape.head_dim),
        "DTYPE": tl.bfloat16 if shape.stored == "*bf16" else tl.float16,
    }


def _variant(kernel: Any, shape: _Shape, tile: Tile, constants: dict[str, Any], backend: str) -> Variant:
    constants = {**constants, "TILE": tile.tokens}
    types = {**_TYPES, **dict.fromkeys(("keys_ptr", "values_ptr"), shape.stored)}
    if kernel is triton_decode.decode_kernel and "sums_ptr" not in constants:
        types["out_ptr"] = "*fp32"  # scratch
    signature = {
        name: "constexpr" if name in constants else types.get(name, "*bf16" if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }
    return Variant(
        f"{kernel.__name__.removesuffix('_kernel')} of {shape.name}",
        kernel,
        signature,
        constants,
        ("row_stride", "table_stride"),
        tile.num_warps,
        tile.num_stages,
        shape.min_capability,
        (backend,),
    )
