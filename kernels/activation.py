"""What flows between ops: tensors that are computed at once, tensors on a GPU, or buffers of a native program being
recorded; and what a step is described by for each of them."""

from __future__ import annotations

import torch

from kernels.device import DeviceStep, DeviceTensor
from kernels.native.program import Buffer, StepArrays

Activation = torch.Tensor | DeviceTensor | Buffer
Step = StepArrays | DeviceStep
