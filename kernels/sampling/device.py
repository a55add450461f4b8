"""Drawing a token for each row on a device, so that the host need not see the logits."""

from __future__ import annotations

import torch

from kernels.device import DeviceOp, DeviceTensor
from kernels.sampling import device_reference
from kernels.sampling.draws import DeviceDraws

__all__ = ["DeviceDraws", "sample"]

_on_device = DeviceOp[torch.Tensor]("sampling", "sample", device_reference.sample)


def sample(logits: DeviceTensor, request: DeviceDraws) -> torch.Tensor:
    """logits [rows, vocabulary] to int32 [rows]: the token at `uniform` of the cumulative distribution, in the order of
    ids, over what temperature, min_p, top_k and top_p leave, applied in this order; -1 where a row holds NaN or
    infinity. A row's token depends on no other row."""
    return _on_device(logits, request)
