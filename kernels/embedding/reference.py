"""The truth: rows of a table."""

from __future__ import annotations

import torch

from kernels.native.program import StepArrays


def embedding(table: torch.Tensor, step: StepArrays, scale: float = 1.0) -> torch.Tensor:
    """table [vocabulary, width] at this step's token ids, times `scale`."""
    return table[torch.from_numpy(step.token_ids[: step.struct.num_rows]).long()].float() * scale


def sampled_rows(x: torch.Tensor, step: StepArrays) -> torch.Tensor:
    """x [rows, width] at the rows to sample."""
    return x[torch.from_numpy(step.sample_rows[: step.struct.num_sampled]).long()]
