"""What bounds a server, from flags: the shape and format of its model, and what its machine moves and multiplies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gateway.cli.console import CliError, note

if TYPE_CHECKING:
    from backends.bench.bound import Ceiling, Rates
    from backends.bench.verification import CeilingOf

# Formats of the files that our own aliases bring; anything else is taken for bf16.
_FORMATS = {"smollm2-135m": "Q4_1"}
_GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd")


def machine_rates(
    hardware: str | None, bandwidth: float | None, operations: float | None
) -> tuple[float | None, float | None]:
    """Bytes/s and FLOP/s as they were given, else as that machine has them; None: neither. Raises CliError."""
    from backends.capacity import MACHINES

    if hardware is None:
        return bandwidth, operations
    if hardware not in MACHINES:
        raise CliError(f"--hardware is {hardware!r}; expected one of {', '.join(MACHINES)}", exit_code=2)
    machine = MACHINES[hardware]
    return bandwidth or machine.bandwidth, operations or machine.operations


def ceiling_of(url: str, shape: str | None, weights: str | None, given: tuple[float | None, float | None]) -> CeilingOf:
    """Measures this machine now and again when it is called: a ceiling is the best that was ever seen. Raises
    CliError."""
    from backends.bench.bound import Ceiling, Rates
    from backends.capacity import SHAPES, WEIGHT_BITS

    if shape is not None and shape not in SHAPES:
        raise CliError(f"--shape is {shape!r}; expected one of {', '.join(SHAPES)}", exit_code=2)
    if weights is not None and weights not in WEIGHT_BITS:
        raise CliError(f"--weights is {weights!r}; expected one of {', '.join(WEIGHT_BITS)}", exit_code=2)
    bandwidth, operations = given
    elsewhere = _not_measurable(url) if bandwidth is None else ""
    first = _measured() if bandwidth is None and not elsewhere else None

    def of(model: str) -> Ceiling | str:
        name = shape or _alias(model)
        if name is None:
            return "the shape of this model is not known: give --shape, see `sekisho plan --list`"
        if elsewhere:
            return elsewhere
        layers = weights or _FORMATS.get(name, "BF16")
        rates = Rates(bandwidth or 0.0, operations) if first is None else _best(first, _measured(), operations)
        about = f"{name} in {layers}, {_said(rates)}{' measured here' if first else ''}"
        return Ceiling(SHAPES[name], layers, rates, about)

    return of


def _not_measurable(url: str) -> str:
    """Why this machine's own memory says nothing of the server's; empty where it does."""
    from backends.bench.processes import is_here

    if not is_here(url):
        return f"{url} is on another machine: give --hardware, or --bandwidth and --operations"
    if any(map(os.path.exists, _GPU_DRIVERS)):
        return "there is a GPU here, whose memory is not measured: give --hardware, or --bandwidth and --operations"
    return ""


def _measured() -> Rates:
    from backends.bench.bound import Rates, copy_bandwidth, product_rate

    note("measuring this machine's memory and products ...")
    return Rates(copy_bandwidth(), product_rate())


def _best(first: Rates, second: Rates, operations: float | None) -> Rates:
    rates = [rates.operations for rates in (first, second) if rates.operations is not None]
    return first._replace(
        bandwidth=max(first.bandwidth, second.bandwidth), operations=operations or max(rates, default=None)
    )


def _said(rates: Rates) -> str:
    moved = f"{rates.bandwidth / 1e9:.1f} GB/s"
    if rates.operations is None:
        return f"{moved} (prompts and products left out: --operations is not known)"
    return f"{moved} and {rates.operations / 1e9:.0f} GFLOP/s"


def _alias(model: str) -> str | None:
    """Our name of the model that a server calls `model`."""
    from backends.capacity import HUB_NAMES, SHAPES

    if model in SHAPES:
        return model
    return next((name for name, hub in HUB_NAMES.items() if hub == model), None)
