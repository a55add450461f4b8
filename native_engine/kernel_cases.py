"""One call of each op in the shapes of a model's layer: what runs, what it must give, and what it must move at least.

The same cases are counted in Triton's interpreter and timed on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backends.capacity import ModelShape
from kernels import floors
from kernels.argmax import argmax
from kernels.attention import attention
from kernels.attention.cache import BLOCK_SIZE, CACHE_TYPES, LayerCache, allocate_on
from kernels.device import DeviceStep, DeviceTensor, plain_argument
from kernels.floors import Work
from kernels.gated import gated
from kernels.linear import linear
from kernels.moe import Experts, moe
from kernels.native.program import StepArrays
from kernels.rms_norm import rms_norm
from kernels.rotary import HeadNorms, rotary
from kernels.sampling import device_reference
from kernels.sampling.device import DeviceDraws
from kernels.sampling.device import sample as draw_on_device
from kernels.soft_cap import soft_cap
from kernels.testing import assert_close
from native_engine.layers.rotary import rotary_tables
from native_engine.random_weights import FORMATS, random_matrix

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}  # of the largest value


_ROUNDED = {"fp8": 6e-2, "int8": 2e-2}  # many rows meet such weights in the weights' own type


@dataclass(frozen=True, slots=True)
class Case:
    """`op(*arguments)` on a GPU. `columns`: how many of the result's are defined (None: all)."""

    name: str
    op: Callable[..., Any]
    arguments: tuple[Any, ...]
    work: Work
    tolerance: float
    columns: int | None = None

    def run(self) -> torch.Tensor:
        return self._read(self.op(*self.arguments))

    def check(self) -> None:
        """Raises AssertionError where the result is not what the op's reference gives in float32."""
        # the reference first: a kernel may work in place
        expected = self._read(self.op(*map(plain_argument, self.arguments))).cpu()
        actual = self.run().cpu()
        assert_close(actual.float().numpy(), expected.float().numpy(), self.tolerance, self.name)

    def _read(self, result: Any) -> torch.Tensor:
        tensor: torch.Tensor = result.tensor if isinstance(result, DeviceTensor) else result
        return tensor if self.columns is None else tensor[:, : self.columns]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where cases are computed and how large: decodes of `batch` sequences of `context` tokens, and one `prompt`."""

    shape: ModelShape
    device: torch.device
    dtype: torch.dtype
    batch: int
    context: int
    prompt: int

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.dtype]

    def random(self, rows: int, width: int) -> DeviceTensor:
        return DeviceTensor(torch.randn(rows, width, device=self.device, dtype=self.dtype))

    def vector(self, width: int) -> torch.Tensor:
        return torch.rand(width, device=self.device) + 0.5


def all_cases(setting: Setting) -> Iterator[Case]:
    """One after the other, so that only one has its tensors in memory."""
    yield from element_wise(setting)
    yield from attentions(setting)
    yield from linears(setting)
    yield from prompts(setting)
    if setting.shape.num_experts:
        yield from experts(setting)
    yield from choices(setting)


def element_wise(setting: Setting) -> Iterator[Case]:
    shape, rows, itemsize = setting.shape, setting.batch, setting.dtype.itemsize
    hidden, inner = shape.hidden_size, shape.intermediate_size
    arguments = (setting.random(rows, hidden), setting.vector(hidden), 1e-6, setting.random(rows, hidden))
    yield _case(setting, "rms_norm + residual", rms_norm, arguments, floors.rms_norm(rows, hidden, itemsize, True))
    yield _case(setting, "gated", gated, (setting.random(rows, 2 * inner), "silu"), floors.gated(rows, inner, itemsize))
    logits = setting.random(rows, shape.vocab_size)
    yield _case(setting, "soft_cap", soft_cap, (logits, 30.0), floors.soft_cap(rows, shape.vocab_size, itemsize))


def attentions(setting: Setting) -> Iterator[Case]:
    """The rotation with its writes to the cache, decodes over each kind of cache, and a prompt in one piece."""
    shape, batch, itemsize = setting.shape, setting.batch, setting.dtype.itemsize
    heads, kv_heads, dim = shape.num_heads, shape.num_kv_heads, shape.head_dim
    width = (heads + 2 * kv_heads) * dim
    scale = dim**-0.5
    tables = rotary_tables(dim, 1e6, None, max(setting.context, setting.prompt))
    tables = type(tables)(tables.cos.to(setting.device), tables.sin.to(setting.device))
    norms = HeadNorms(setting.vector(dim), setting.vector(dim), 1e-6)
    decode = ([setting.context] * batch, [1] * batch)
    for cache_dtype in dict.fromkeys([setting.dtype, torch.float8_e4m3fn]):
        step, cache = _cached(setting, *decode, cache_dtype)
        kind = f", {next(name for name, dtype in CACHE_TYPES.items() if dtype == cache_dtype)} cache"
        arguments = (setting.random(batch, width), cache, step, heads, scale)
        sizes = (heads, kv_heads, dim, itemsize, cache_dtype.itemsize)
        yield _case(setting, f"attention, decode{kind}", attention, arguments, floors.attention(*decode, *sizes))
        rotated = (setting.random(batch, width), tables, cache, step, heads, norms)
        yield _case(setting, f"rotary{kind}", rotary, rotated, floors.rotary(batch, *sizes), columns=heads * dim)
    prefill = ([setting.prompt], [setting.prompt])
    step, cache = _cached(setting, *prefill, setting.dtype)
    arguments = (setting.random(setting.prompt, width), cache, step, heads, scale)
    work = floors.attention(*prefill, heads, kv_heads, dim, itemsize, itemsize)
    yield _case(setting, "attention, prefill", attention, arguments, work)


def linears(setting: Setting) -> Iterator[Case]:
    """The largest matrix of a layer in each format, for the batch's rows."""
    for weight_format in FORMATS:
        yield _linear(setting, weight_format, setting.batch)


def prompts(setting: Setting) -> Iterator[Case]:
    """The same for the prompt's rows."""
    for weight_format in ("bf16", "fp8", "int4"):
        yield _linear(setting, weight_format, setting.prompt)


def _linear(setting: Setting, weight_format: str, rows: int) -> Case:
    n, k = 2 * setting.shape.intermediate_size, setting.shape.hidden_size
    weight = random_matrix(n, k, weight_format, setting.device, setting.dtype)
    work = floors.linear(rows, n, k, weight.nbytes, setting.dtype.itemsize)
    name = f"linear, {weight_format} weights, {rows} rows"
    tolerance = (
        max(setting.tolerance, _ROUNDED.get(weight_format, 0.0)) if rows == setting.prompt else setting.tolerance
    )
    return Case(name, linear, (setting.random(rows, k), weight), work, tolerance)


def experts(setting: Setting) -> Iterator[Case]:
    shape, rows = setting.shape, setting.batch
    hidden, width = shape.hidden_size, shape.intermediate_size
    count, top_k = shape.num_experts, shape.experts_per_token
    logits = setting.random(rows, count)
    chosen = len(set(logits.tensor.float().topk(top_k, dim=-1).indices.flatten().tolist()))
    for weight_format in ("bf16", "fp8", "int4"):
        sizes = (weight_format, setting.device, setting.dtype)
        gate_up, down = random_matrix(count * 2 * width, hidden, *sizes), random_matrix(count * hidden, width, *sizes)
        layer = Experts(count, top_k, True, "silu", gate_up, down)
        expert_bytes = (gate_up.nbytes + down.nbytes) // count
        work = floors.moe(rows, hidden, width, top_k, chosen, expert_bytes, setting.dtype.itemsize)
        arguments = (setting.random(rows, hidden), logits, layer, setting.random(rows, hidden))
        yield _case(setting, f"moe, {weight_format} weights, {chosen} of {count} experts", moe, arguments, work)


def choices(setting: Setting) -> Iterator[Case]:
    """Tokens of the largest logits, and drawn ones."""
    rows, vocabulary = setting.batch, setting.shape.vocab_size
    work = floors.one_token_each(rows, vocabulary, setting.dtype.itemsize)
    logits = setting.random(rows, vocabulary)
    yield _case(setting, "argmax", argmax, (logits,), work)
    temperature, top_p, min_p = (torch.full((rows,), value, device=setting.device) for value in (0.8, 0.95, 0.01))
    top_k = torch.full((rows,), 50, device=setting.device, dtype=torch.int32)
    draws = DeviceDraws(temperature, top_k, top_p, min_p, torch.rand(rows, device=setting.device))
    yield _case(setting, "sample", sample, (logits, draws), work)


def sample(logits: DeviceTensor | torch.Tensor, draws: DeviceDraws) -> torch.Tensor:
    """The op, or for a plain tensor its reference: the op itself takes none."""
    if isinstance(logits, DeviceTensor):
        return draw_on_device(logits, draws)
    return device_reference.sample(logits, draws)


def _case(
    setting: Setting,
    name: str,
    op: Callable[..., Any],
    arguments: tuple[Any, ...],
    work: Work,
    columns: int | None = None,
) -> Case:
    return Case(name, op, arguments, work, setting.tolerance, columns)


def _cached(
    setting: Setting, contexts: Sequence[int], rows: Sequence[int], dtype: torch.dtype
) -> tuple[DeviceStep, LayerCache]:
    """A step over the last `rows` tokens of sequences of `contexts` tokens, and a cache that holds them, its blocks in
    no order."""
    step = described(contexts, rows, setting.device)
    num_blocks = sum(-(-context // BLOCK_SIZE) for context in contexts)
    cache = allocate_on(setting.device, num_blocks, setting.shape.num_kv_heads, setting.shape.head_dim, dtype)
    for part in (cache.keys, cache.values):
        part.copy_(torch.randn(part.shape, device=setting.device, dtype=torch.float16 if dtype.itemsize < 4 else dtype))
    return step, cache


def described(contexts: Sequence[int], rows: Sequence[int], device: torch.device) -> DeviceStep:
    """The step as the runner would describe it: block tables of every sequence, positions and slots of every row."""
    blocks = [-(-context // BLOCK_SIZE) for context in contexts]
    host = StepArrays(sum(rows), len(rows), max(blocks))
    order = torch.randperm(sum(blocks)).to(torch.int32)
    row = 0
    for sequence, (context, count, table) in enumerate(zip(contexts, rows, torch.split(order, blocks), strict=True)):
        host.block_tables[sequence, : len(table)] = table.numpy()
        positions = torch.arange(context - count, context)
        slots = table.long()[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
        host.positions[row : row + count], host.slots[row : row + count] = positions.numpy(), slots.numpy()
        row += count
        host.query_starts[sequence + 1] = row
        host.sample_rows[sequence] = row - 1
    host.struct.num_rows, host.struct.num_sequences, host.struct.num_sampled = row, len(rows), len(rows)
    step = DeviceStep(host, device)
    step.upload()
    return step
