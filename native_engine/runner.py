"""What the engine asks of what computes, in this process or on a device. Protocols only."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from native_engine.batch import ScheduledBatch
from native_engine.host_tier import Copy


class Runner(Protocol):
    """What computes. Its KV cache has `num_blocks` blocks; it keeps nothing about a sequence between two steps."""

    @property
    def num_blocks(self) -> int: ...

    @property
    def num_host_blocks(self) -> int:
        """Of the second tier; 0 where there is none."""
        ...

    @property
    def max_model_len(self) -> int: ...

    @property
    def window(self) -> int | None:
        """The tokens that a token sees in the layer that sees most; None where that is all."""
        ...

    def copy(self, copies: list[Copy]) -> None:
        """Moves blocks between cache and host tier, in this order."""
        ...

    def execute(self, batch: ScheduledBatch) -> list[list[int]]:
        """The new tokens of each item that `samples`, in order; [-1] where the logits were not numbers.

        Raises RunnerLost where it will never compute again; an Exception is this batch's.
        """
        ...


class Launched(Protocol):
    """A step under way."""

    @property
    def on_device(self) -> bool:
        """Each new token is chosen on the device, so that a next step can be launched before the host knows it. False
        where the host has a part in it: by a grammar, a penalty, log probabilities, a draft."""
        ...

    def tokens(self) -> list[list[int]]:
        """Waits; then as `Runner.execute`, on sequences that stand where they stood at the launch, and whose tokens are
        all known. Raises what went wrong on the device."""
        ...


@runtime_checkable
class AheadRunner(Runner, Protocol):
    """A runner that may compute on a device meanwhile, where what is launched, executed and copied takes place in that
    order."""

    @property
    def runs_ahead(self) -> bool: ...

    def launch(self, batch: ScheduledBatch) -> Launched:
        """Returns while the device computes. Positions, tokens and block tables are those of this moment: afterwards
        the sequences stand again where they stood before the step that is still under way.

        An item that `follows` takes its token from the step launched before, which was `on_device`. That may be -1
        there: what is computed behind it is thrown away, but must not fault.
        """
        ...
