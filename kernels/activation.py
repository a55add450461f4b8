"""What flows between ops: tensors that are computed at once, or buffers of a native program being recorded."""

from __future__ import annotations

import torch

from kernels.native.program import Buffer

Activation = torch.Tensor | Buffer
