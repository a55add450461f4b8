"""What drawing one token needs to know of a whole row of logits."""

from __future__ import annotations

from kernels.sampling.reference import BLOCK, Survey, survey

__all__ = ["BLOCK", "Survey", "survey"]
