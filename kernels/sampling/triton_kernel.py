"""Drawing tokens on a GPU without sorting: a threshold in 16 ways a pass, down to the last bit of a logit.

Logits are compared as keys: integers in the same order, of as many bits as their type has. top_k and top_p each keep
what is above some key, and the first few of those that equal it. The key is found four bits at a time: a pass over the
vocabulary counts and weighs what reaches each of 16 thresholds, the next goes on between the two that enclose the
target. That is exact, and costs the same whatever the distribution. What blocks weigh is added up as integers, in
multiples of 2^-40 of the best token's weight: then their order does not matter, and a row's token depends on its own
logits alone.

Reads rows * vocabulary numbers twice (survey, weights of what is kept), and once more a pass (4 for bfloat16, 5 for
float16, 8 for float32) for each of the two limits that a row has, without those blocks of the vocabulary whose largest
logit is below the thresholds. A pass compares each number 16 times. The number of launches does not depend on the data:
6, and twice as many as passes.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kernels.ahead_of_time import Variant
from kernels.device import DeviceTensor
from kernels.sampling.draws import DeviceDraws

BLOCK = 2048  # tokens a program
_KEY_BITS = {torch.bfloat16: 16, torch.float16: 20, torch.float32: 32}  # of float32's, those that the type can set

_WAYS, _DIGIT = tl.constexpr(16), tl.constexpr(4)  # thresholds a pass, and the bits of a key that they settle
_UNIT = tl.constexpr(float(2**40))  # the weight of the best token
_INFINITY = tl.constexpr(float("inf"))
_LOWEST = tl.constexpr(-1e30)  # a logit below has no weight beside any other, and must not overflow
# What is known of a row, int64: the lowest key that is kept, how many of its equals, what all that is kept weighs, and
# how much the limit that is searched for keeps (tokens or weight; 0: no search).
_FIELDS = tl.constexpr(4)
_KEY, _TIES, _MASS, _TARGET = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)


def sample(logits: DeviceTensor, draws: DeviceDraws) -> torch.Tensor:
    """See kernels.sampling.device.sample."""
    x = logits.tensor
    (rows, width), bits = x.shape, _KEY_BITS[x.dtype]
    blocks, passes = triton.cdiv(width, BLOCK), bits // 4
    tokens = x.new_empty(rows, dtype=torch.int32)
    if not rows:
        return tokens
    tops, sums = x.new_empty(2, rows, blocks, dtype=torch.float32)
    peaks = x.new_empty(rows, dtype=torch.float32)
    limits = x.new_empty(rows, 4, dtype=torch.int64)
    seen = x.new_zeros(2 * passes, rows, 2, 16, dtype=torch.int64)
    brackets = x.new_empty(2 * passes, rows, 3, dtype=torch.int64)
    masses, ties = x.new_empty(2, rows, blocks, dtype=torch.int64)

    grid, padded = (rows, blocks), triton.next_power_of_2(blocks)
    _survey[grid](x, draws.temperature, tops, sums, width, blocks, BLOCK=BLOCK)
    _begin[(rows,)](
        *(tops, sums, draws.temperature, draws.top_k, draws.top_p, draws.min_p, peaks, limits, width, blocks),
        BITS=bits,
        BLOCKS=padded,
    )
    for by_mass in (False, True):
        for done in range(passes):
            _narrow[grid](
                *(x, draws.temperature, tops, peaks, limits, seen, brackets, width, blocks, rows, done),
                BITS=bits,
                BY_MASS=by_mass,
                BLOCK=BLOCK,
                num_warps=8,
            )
        _settle[(rows,)](
            *(draws.temperature, draws.top_p, peaks, limits, seen, brackets, rows), BITS=bits, BY_MASS=by_mass
        )
    _weigh[grid](x, draws.temperature, tops, peaks, limits, masses, ties, width, blocks, BITS=bits, BLOCK=BLOCK)
    _pick[(rows,)](
        *(x, draws.temperature, draws.uniform, peaks, limits, masses, ties, tokens, width, blocks),
        BITS=bits,
        BLOCK=BLOCK,
        BLOCKS=padded,
        num_warps=8,
    )
    return tokens


@triton.jit
def _key_of(x, BITS: tl.constexpr):
    """float32 to int32 in the same order; of equals, -0 and 0 are two."""
    bits = tl.where(x == 0, 0.0, x).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)) >> (32 - BITS)


@triton.jit
def _logit_of(key, BITS: tl.constexpr):
    """The inverse of `_key_of`; a scalar."""
    filled = key.to(tl.int32) << (32 - BITS)
    if BITS < 32:
        filled = tl.where(filled < 0, filled | ((1 << (32 - BITS)) - 1), filled)
    return (filled ^ ((filled >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _factor_of(temperature):
    """What logits are multiplied by: finite, and 1 where the best is taken anyway."""
    return tl.minimum(1 / tl.where(temperature > 1e-38, temperature, 1.0), 1e30)


@triton.jit
def _weight_of(x, peak, factor):
    """exp of how far x is below the best: 1 at most. Down there a bound keeps the product finite."""
    return tl.exp(tl.maximum(x - peak, -1e7) * factor)


@triton.jit
def _in_units(weight):
    return (weight * _UNIT).to(tl.int64)


@triton.jit
def _load_block(logits_ptr, row, block, width, BLOCK: tl.constexpr):
    """The logits of a block in float32, -infinity past the end of the row."""
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    pointers = logits_ptr + row.to(tl.int64) * width + offsets
    return tl.load(pointers, mask=offsets < width, other=-_INFINITY).to(tl.float32)


@triton.jit
def _survey(logits_ptr, temperature_ptr, top_ptr, sum_ptr, width, blocks, BLOCK: tl.constexpr):
    """Of each block the largest logit and the sum of the weights beside it; infinity where something is not finite."""
    row, block = tl.program_id(0), tl.program_id(1)
    there = block * BLOCK + tl.arange(0, BLOCK) < width
    x = _load_block(logits_ptr, row, block, width, BLOCK)
    finite = tl.abs(x) < _INFINITY
    top = tl.max(tl.where(finite, x, _LOWEST), axis=0)
    factor = _factor_of(tl.load(temperature_ptr + row))
    weights = tl.where(finite, _weight_of(tl.where(finite, x, top), top, factor), 0.0)
    strange = tl.max((there & (finite == 0)).to(tl.int32), axis=0)
    tl.store(top_ptr + row * blocks + block, tl.where(strange > 0, _INFINITY, top))
    tl.store(sum_ptr + row * blocks + block, tl.sum(weights, axis=0))


@triton.jit
def _begin(
    top_ptr,
    sum_ptr,
    temperature_ptr,
    top_k_ptr,
    top_p_ptr,
    min_p_ptr,
    peak_ptr,
    limit_ptr,
    width,
    blocks,
    BITS: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """The best logit of a row, what min_p leaves, and how many tokens top_k does."""
    row, offsets = tl.program_id(0), tl.arange(0, BLOCKS)
    tops = tl.load(top_ptr + row * blocks + offsets, mask=offsets < blocks, other=_LOWEST)
    sums = tl.load(sum_ptr + row * blocks + offsets, mask=offsets < blocks, other=0.0)
    temperature, min_p = tl.load(temperature_ptr + row), tl.load(min_p_ptr + row)
    top_k, top_p = tl.load(top_k_ptr + row), tl.load(top_p_ptr + row)
    factor = _factor_of(temperature)
    peak = tl.max(tops, axis=0)
    tl.store(peak_ptr + row, peak)

    limit = limit_ptr + row * _FIELDS
    is_drawn = (temperature > 0) & (peak < _INFINITY)
    if is_drawn:
        bound = tl.where(min_p > 0, peak + tl.log(tl.where(min_p > 0, min_p, 1.0)) / factor, _LOWEST)
        bound_key = _key_of(tl.minimum(tl.maximum(bound, _LOWEST), peak), 32)
        key = bound_key >> (32 - BITS)
        if BITS < 32:  # a number above zero that the type cannot hold lies below the next that it can
            key += ((bound_key > 0) & (bound_key & ((1 << (32 - BITS)) - 1) != 0)).to(tl.int32)
        tl.store(limit + _KEY, key.to(tl.int64))
        tl.store(limit + _TIES, width.to(tl.int64))
        tl.store(limit + _MASS, _in_units(tl.sum(sums * _weight_of(tops, peak, factor), axis=0)))
        all_of_them = tl.where((min_p > 0) & (top_p < 1), width, 0)
        tl.store(limit + _TARGET, tl.where(top_k > 0, top_k, all_of_them).to(tl.int64))
    else:  # the first of the largest
        tl.store(limit + _KEY, _key_of(peak, BITS).to(tl.int64))
        tl.store(limit + _TIES, tl.full([], 1, tl.int64))
        tl.store(limit + _MASS, tl.full([], 0, tl.int64))
        tl.store(limit + _TARGET, tl.full([], 0, tl.int64))


@triton.jit
def _bracket(limit_ptr, seen_ptr, bracket_ptr, row, rows, done, BITS: tl.constexpr, BY_MASS: tl.constexpr):
    """Where the search stands after `done` passes: the lowest key of the bracket; how many tokens, and what weight, lie
    above the bracket; and how many reach its lowest key."""
    low, count = tl.full([], -(1 << (BITS - 1)), tl.int64), tl.full([], 0, tl.int64)
    count_above, mass_above = tl.full([], 0, tl.int64), tl.full([], 0, tl.int64)
    if done > 0:
        last = (done - 1 + BY_MASS * (BITS // _DIGIT)) * rows + row
        bracket = bracket_ptr + last * 3
        ways = tl.arange(0, _WAYS)
        counts = tl.load(seen_ptr + last * 2 * _WAYS + ways)
        masses = tl.load(seen_ptr + last * 2 * _WAYS + _WAYS + ways)
        shift = (BITS - done * _DIGIT).to(tl.int64)
        low = tl.load(bracket)
        # Every threshold up to some way keeps enough: what min_p or top_k has ruled out must not come back.
        enough = low + (ways.to(tl.int64) << shift) <= tl.load(limit_ptr + row * _FIELDS + _KEY)
        enough |= (masses if BY_MASS else counts) >= tl.load(limit_ptr + row * _FIELDS + _TARGET)
        way = tl.sum(enough.to(tl.int32), axis=0) - 1
        low += way.to(tl.int64) << shift
        above = ways == way + 1
        is_last = way == _WAYS - 1
        count_above = tl.where(is_last, tl.load(bracket + 1), tl.sum(tl.where(above, counts, 0), axis=0))
        mass_above = tl.where(is_last, tl.load(bracket + 2), tl.sum(tl.where(above, masses, 0), axis=0))
        count = tl.sum(tl.where(ways == way, counts, 0), axis=0)
    return low, count_above, mass_above, count


@triton.jit(do_not_specialize=["rows", "done"])  # one kernel for any number of rows
def _narrow(
    logits_ptr,
    temperature_ptr,
    top_ptr,
    peak_ptr,
    limit_ptr,
    seen_ptr,
    bracket_ptr,
    width,
    blocks,
    rows,
    done,
    BITS: tl.constexpr,
    BY_MASS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The pass after `done` others: counts and weighs a block's tokens that reach each of 16 thresholds."""
    row, block = tl.program_id(0), tl.program_id(1)
    if tl.load(limit_ptr + row * _FIELDS + _TARGET) > 0:
        low, count_above, mass_above, _ = _bracket(limit_ptr, seen_ptr, bracket_ptr, row, rows, done, BITS, BY_MASS)
        this = (done + BY_MASS * (BITS // _DIGIT)) * rows + row
        if block == 0:
            tl.store(bracket_ptr + this * 3, low)
            tl.store(bracket_ptr + this * 3 + 1, count_above)
            tl.store(bracket_ptr + this * 3 + 2, mass_above)
        if _key_of(tl.load(top_ptr + row * blocks + block), BITS) >= low:
            ways = tl.arange(0, _WAYS)
            shift = (BITS - (done + 1) * _DIGIT).to(tl.int64)
            thresholds = (low + (ways.to(tl.int64) << shift)).to(tl.int32)
            there = block * BLOCK + tl.arange(0, BLOCK) < width
            x = _load_block(logits_ptr, row, block, width, BLOCK)
            weights = _weight_of(x, tl.load(peak_ptr + row), _factor_of(tl.load(temperature_ptr + row)))
            reach = there[:, None] & (_key_of(x, BITS)[:, None] >= thresholds[None, :])
            counts = tl.sum(reach.to(tl.int32), axis=0)
            masses = tl.sum(tl.where(reach, weights[:, None], 0.0), axis=0)
            tl.atomic_add(seen_ptr + this * 2 * _WAYS + ways, counts.to(tl.int64), sem="relaxed")
            tl.atomic_add(seen_ptr + this * 2 * _WAYS + _WAYS + ways, _in_units(masses), sem="relaxed")


@triton.jit(do_not_specialize=["rows"])
def _settle(
    temperature_ptr,
    top_p_ptr,
    peak_ptr,
    limit_ptr,
    seen_ptr,
    bracket_ptr,
    rows,
    BITS: tl.constexpr,
    BY_MASS: tl.constexpr,
):
    """What a limit leaves, once all bits of its key are known, and after top_k how much weight top_p does."""
    row = tl.program_id(0)
    limit, peak = limit_ptr + row * _FIELDS, tl.load(peak_ptr + row)
    temperature, top_p = tl.load(temperature_ptr + row), tl.load(top_p_ptr + row)
    target, mass = tl.load(limit + _TARGET), tl.load(limit + _MASS)
    if target > 0:
        passes = tl.full([], BITS // _DIGIT, tl.int32)
        key, count_above, mass_above, count = _bracket(
            limit_ptr, seen_ptr, bracket_ptr, row, rows, passes, BITS, BY_MASS
        )
        weight = _in_units(_weight_of(_logit_of(key, BITS), peak, _factor_of(temperature)))
        if BY_MASS:
            unit = tl.maximum(weight, 1)
            ties = tl.minimum(tl.maximum((target - mass_above + unit - 1) // unit, 1), count - count_above)
        else:
            ties = tl.minimum(target - count_above, count - count_above)
            mass = mass_above + ties * weight
        tl.store(limit + _KEY, key)
        tl.store(limit + _TIES, ties)
    if not BY_MASS:
        is_limited = (temperature > 0) & (peak < _INFINITY) & (top_p < 1)
        wanted = tl.ceil(mass.to(tl.float64) * top_p.to(tl.float64)).to(tl.int64)
        tl.store(limit + _TARGET, tl.where(is_limited, tl.maximum(wanted, 1), 0))


@triton.jit
def _weigh(
    logits_ptr,
    temperature_ptr,
    top_ptr,
    peak_ptr,
    limit_ptr,
    mass_ptr,
    tie_ptr,
    width,
    blocks,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Of each block what lies above the lowest key that is kept weighs, and how many equal that key."""
    row, block = tl.program_id(0), tl.program_id(1)
    place, limit = row * blocks + block, limit_ptr + row * _FIELDS
    key, peak = tl.load(limit + _KEY), tl.load(peak_ptr + row)
    mass, ties = tl.full([], 0, tl.int64), tl.full([], 0, tl.int64)
    if (_key_of(tl.load(top_ptr + place), BITS) >= key) & (peak < _INFINITY):
        x = _load_block(logits_ptr, row, block, width, BLOCK)
        keys = _key_of(x, BITS)
        weights = _weight_of(x, peak, _factor_of(tl.load(temperature_ptr + row)))
        mass = _in_units(tl.sum(tl.where(keys > key, weights, 0.0), axis=0))
        ties = tl.sum((keys == key).to(tl.int32), axis=0).to(tl.int64)
    tl.store(mass_ptr + place, mass)
    tl.store(tie_ptr + place, ties)


@triton.jit
def _pick(
    logits_ptr,
    temperature_ptr,
    uniform_ptr,
    peak_ptr,
    limit_ptr,
    mass_ptr,
    tie_ptr,
    token_ptr,
    width,
    blocks,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """First the block that holds `uniform` of the weight, then the token in it."""
    row, all_blocks = tl.program_id(0), tl.arange(0, BLOCKS)
    peak, factor = tl.load(peak_ptr + row), _factor_of(tl.load(temperature_ptr + row))
    token = tl.full([], -1, tl.int32)
    if peak < _INFINITY:
        key, kept_ties = tl.load(limit_ptr + row * _FIELDS + _KEY), tl.load(limit_ptr + row * _FIELDS + _TIES)
        weight = _in_units(_weight_of(_logit_of(key, BITS), peak, factor))
        masses = tl.load(mass_ptr + row * blocks + all_blocks, mask=all_blocks < blocks, other=0)
        ties = tl.load(tie_ptr + row * blocks + all_blocks, mask=all_blocks < blocks, other=0)
        ties_before = tl.cumsum(ties, axis=0) - ties
        masses += tl.minimum(tl.maximum(kept_ties - ties_before, 0), ties) * weight
        ends, total = tl.cumsum(masses, axis=0), tl.sum(masses, axis=0)
        position = (tl.load(uniform_ptr + row).to(tl.float64) * total.to(tl.float64)).to(tl.int64)
        position = tl.minimum(position, total - 1)
        block = tl.sum((ends <= position).to(tl.int32), axis=0)
        before = tl.sum(tl.where(all_blocks < block, masses, 0), axis=0)
        kept_ties -= tl.sum(tl.where(all_blocks < block, ties, 0), axis=0)

        x = _load_block(logits_ptr, row, block, width, BLOCK)
        keys, places = _key_of(x, BITS), tl.arange(0, BLOCK)
        equal = keys == key
        kept = (keys > key) | (equal & (tl.cumsum(equal.to(tl.int32), axis=0) <= kept_ties))
        weights = tl.where(kept, _in_units(_weight_of(x, peak, factor)), 0)
        place = tl.sum((before + tl.cumsum(weights, axis=0) <= position).to(tl.int32), axis=0)
        # A block's weight was summed up in float32, so that `position` may lie a little past its last token.
        place = tl.minimum(place, tl.max(tl.where(weights > 0, places, 0), axis=0))
        token = block * BLOCK + place
    tl.store(token_ptr + row, token)


def variants() -> list[Variant]:
    warps = {_survey: 4, _begin: 4, _narrow: 8, _settle: 4, _weigh: 4, _pick: 8}
    return [
        *(_variant(kernel, num_warps, "bf16", 16) for kernel, num_warps in warps.items()),
        *(_variant(kernel, 8, "fp32", 32) for kernel in (_narrow, _pick)),
    ]


def _variant(kernel: Any, num_warps: int, logits: str, bits: int) -> Variant:
    kinds = {
        "logits_ptr": f"*{logits}",
        **dict.fromkeys(("temperature_ptr", "top_p_ptr", "min_p_ptr", "uniform_ptr"), "*fp32"),
        **dict.fromkeys(("top_ptr", "sum_ptr", "peak_ptr"), "*fp32"),
        **dict.fromkeys(("top_k_ptr", "token_ptr"), "*i32"),
        **dict.fromkeys(("limit_ptr", "seen_ptr", "bracket_ptr", "mass_ptr", "tie_ptr"), "*i64"),
        **dict.fromkeys(("width", "blocks", "rows", "done"), "i32"),
    }
    values = {"BITS": bits, "BLOCK": BLOCK, "BLOCKS": 128, "BY_MASS": True}
    signature = {name: kinds.get(name, "constexpr") for name in kernel.arg_names}
    constants = {name: values[name] for name, kind in signature.items() if kind == "constexpr"}
    name = f"{kernel.fn.__name__.strip('_')}, {logits}"
    wide = kernel in (_survey, _weigh)  # comparing, not reading, decides how long a pass takes
    return Variant(name, kernel, signature, constants, ("width",), num_warps, wide=wide)
