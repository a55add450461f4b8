"""The contract of an engine as a list of checks that runs on any adapter. Knows no terminal and no gateway."""

from __future__ import annotations

from backends.check.engine import Engine, connect, kind_of
from backends.check.suite import CHECKS, Check, Outcome, examine

__all__ = ["CHECKS", "Check", "Engine", "Outcome", "connect", "examine", "kind_of"]
