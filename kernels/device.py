"""What flows between ops on a GPU: tensors whose operations are Triton kernels, with plain torch behind each of them.

With TRITON_INTERPRET=1 the same kernels run on tensors of the CPU, in Triton's interpreter.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

import torch

from kernels.native.program import ARRAYS, StepArrays

logger = logging.getLogger(__name__)

Result = TypeVar("Result", "DeviceTensor", torch.Tensor, None)


def interpreting() -> bool:
    """Whether Triton's kernels run on the CPU; read where they are first imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """An activation [rows, width] in the type that the model computes in (bfloat16, float16 or float32), contiguous."""

    tensor: torch.Tensor


class DeviceStep:
    """A step's arrays on the device, int32, at addresses that never change. What the host has of them is in `host`.

    token_ids, positions, slots [max rows]: a slot of -1 is that of a row which only fills up a batch, and is written
    nowhere; query_starts [max sequences + 1]; block_tables [max sequences, max blocks]; sample_rows [max sampled].
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    query_starts: torch.Tensor
    block_tables: torch.Tensor
    sample_rows: torch.Tensor

    def __init__(self, host: StepArrays, device: torch.device) -> None:
        self.host = host
        self._staged = torch.from_numpy(host.memory)
        self._memory = torch.zeros_like(self._staged, device=device)
        sizes = [getattr(host, name).size for name in ARRAYS]
        for name, part in zip(ARRAYS, torch.split(self._memory, sizes), strict=True):
            setattr(self, name, part.view(getattr(host, name).shape))
        self._copied = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def upload(self) -> None:
        """Copies what the step uses, in one piece; returns at once where the host's memory is pinned."""
        unused = (len(self.block_tables) - self.num_sequences) * self.block_tables.shape[1]
        used = len(self._memory) - unused
        self._memory[:used].copy_(self._staged[:used], non_blocking=True)
        if self._copied is not None:
            self._copied.record()

    def wait(self) -> None:
        """Until the last upload has read the host's arrays, so that they may be written again."""
        if self._copied is not None:
            self._copied.synchronize()

    @property
    def num_rows(self) -> int:
        return int(self.host.struct.num_rows)

    @property
    def num_sequences(self) -> int:
        return int(self.host.struct.num_sequences)

    @property
    def num_sampled(self) -> int:
        return int(self.host.struct.num_sampled)

    @property
    def num_decodes(self) -> int:
        """How many sequences, the first ones, have one row each."""
        starts = self.host.query_starts[: self.num_sequences + 1]
        longer = (starts[1:] - starts[:-1] > 1).nonzero()[0]
        return int(longer[0]) if len(longer) else self.num_sequences


class DeviceOp(Generic[Result]):
    """The function `name` of an op's `triton_kernel` module, which is imported when it is first called.

    Where its kernel cannot be built, `plain` stands in from then on, after a warning: the op's reference, which takes
    float32 tensors and the host's step.
    """

    fallen_back: set[str] = set()  # noqa: RUF012  # of the process: what one model could not build, no other can

    def __init__(self, op: str, name: str, plain: Callable[..., Any]) -> None:
        self._op, self._name, self._plain = op, name, plain

    def __call__(self, *args: Any) -> Result:
        if self._name not in self.fallen_back:
            try:
                kernel: Callable[..., Result] = getattr(import_module(f"kernels.{self._op}.triton_kernel"), self._name)
                return kernel(*args)
            except build_failures() as fault:
                logger.warning("the Triton kernel of %s cannot be built: plain torch instead (%s)", self._name, fault)
                self.fallen_back.add(self._name)
        result: Any = self._plain(*map(plain_argument, args))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float32:
            result = DeviceTensor(result.to(args[0].tensor.dtype))
        return cast(Result, result)


def build_failures() -> tuple[type[Exception], ...]:
    """What importing or compiling a kernel raises; none of it is raised while a built kernel runs."""
    try:
        from triton.compiler.errors import CompilationError
        from triton.runtime.errors import OutOfResources, PTXASError
    except ImportError:
        return (ImportError,)
    return (ImportError, CompilationError, OutOfResources, PTXASError)


def plain_argument(value: Any) -> Any:
    if isinstance(value, DeviceTensor):
        return value.tensor.float()
    return value.host if isinstance(value, DeviceStep) else value
