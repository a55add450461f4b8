"""Records routing, the experts' two products and their sum; see cpu.h for the slots."""

from __future__ import annotations

from typing import cast

import torch

from kernels.gated.cpu import NUMBERS
from kernels.linear.cpu import PackedWeight, scratch_bytes
from kernels.linear.formats import FORMATS
from kernels.moe.experts import Experts
from kernels.native.program import ROW_TILE, Buffer, Kind

TILE = 16  # columns, as ../linear/formats.h


def moe(x: Buffer, logits: Buffer, experts: Experts, residual: Buffer | None = None) -> Buffer:
    """As kernels.moe.moe. Raises ValueError for experts whose rows are no whole tiles."""
    gate_up, down = cast(PackedWeight, experts.gate_up), cast(PackedWeight, experts.down)
    _check(x, logits, experts.count, gate_up, down)
    layout = _Layout(x, experts.count, experts.top_k)
    h = layout.route(logits, x, experts.normalised)
    h = layout.product(h, gate_up, experts.gate_up_bias)
    h = layout.gated(h, NUMBERS[experts.activation])
    return layout.sum(layout.product(h, down, experts.down_bias), residual)


def _check(x: Buffer, logits: Buffer, count: int, gate_up: PackedWeight, down: PackedWeight) -> None:
    if (x.width, logits.width, gate_up.n, down.n) != (gate_up.k, count, count * 2 * down.k, count * gate_up.k):
        raise ValueError(
            f"{count} experts of [{gate_up.n}, {gate_up.k}] and [{down.n}, {down.k}] do not fit "
            f"{x.width} columns and {logits.width} router logits"
        )
    if gate_up.order is not None or down.order is not None:
        raise ValueError("experts whose columns are in another order have no native kernel: sort them back")
    if gate_up.k % TILE or down.k % TILE:
        raise ValueError(f"experts of {gate_up.k} and {down.k} columns are no whole tiles of {TILE}")


class _Layout:
    """Where the rows of a step lie by expert, and the ops that work on rows so laid out."""

    def __init__(self, x: Buffer, count: int, top_k: int) -> None:
        self.program, self.sampled, self.count, self.top_k = x.program, x.sampled, count, top_k
        rows = self.program.max_sampled if x.sampled else self.program.max_rows
        # Each expert with rows may leave all but one place of its last tile empty.
        places = rows * top_k + min(count, rows * top_k) * (ROW_TILE - 1)
        self.num_places = places // ROW_TILE * ROW_TILE
        self.groups = self.program.buffer(1 + 3 * count, rows=1)
        self.chosen, self.weights, self.places = (self.program.buffer(top_k, self.sampled) for _ in range(3))

    def route(self, logits: Buffer, x: Buffer, normalised: bool) -> Buffer:
        y = self.program.buffer(x.width, rows=self.num_places)
        self._record(Kind.ROUTE, [logits, x, y, self.chosen, self.weights], [x.width, self.count, int(normalised)])
        return y

    def product(self, x: Buffer, weight: PackedWeight, bias: torch.Tensor | None) -> Buffer:
        n = weight.n // self.count
        y, scratch = self.program.buffer(n, rows=self.num_places), None
        if tile := scratch_bytes(weight):
            scratch = self.program.buffer(weight.k, bytes_per_tile=tile, rows=self.num_places)
        offset = None if bias is None else bias.float().numpy()
        pointers = [x, weight.data, y, offset, None, scratch]
        chosen = FORMATS[weight.type_name]
        row_bytes = chosen.bytes_per_row(weight.k)
        self._record(Kind.EXPERTS, pointers, [weight.k, n, chosen.number, n, 0, self.top_k, 0, row_bytes])
        return y

    def gated(self, x: Buffer, activation: int) -> Buffer:
        y = self.program.buffer(x.width // 2, rows=self.num_places)
        self._record(Kind.GATED_EXPERTS, [x, None, y], [y.width, activation])
        return y

    def sum(self, x: Buffer, residual: Buffer | None) -> Buffer:
        y = self.program.buffer(x.width, self.sampled)
        self._record(Kind.SUM_EXPERTS, [x, None, y, self.weights, residual], [x.width])
        return y

    def _record(self, kind: Kind, pointers: list[object], integers: list[int]) -> None:
        pointers += [None] * (6 - len(pointers)) + [self.groups, self.places]
        integers += [0, 0, 0, 0, 0, self.top_k][len(integers) :]
        self.program.record(kind, pointers, integers, sampled=self.sampled)
