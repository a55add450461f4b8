"""A second tier for KV blocks: what the cache has no room for any more moves to host memory, and back when it is
asked for. Plans the copies; whoever owns the tensors makes them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple


class Copy(NamedTuple):
    """Keys and values of one block, of all layers. `device` and `host` are the numbers of blocks in the two tiers."""

    device: int
    host: int
    to_host: bool


class HostTier:
    """Blocks by the hash of their content. The least recently kept gives way.

    `copies` have to be made in their order, before anything else is written: a block of the cache is emptied by one
    copy and filled by the next.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.num_kept = 0  # in all
        self.num_fetched = 0
        self._slot_of: OrderedDict[bytes, int] = OrderedDict()
        self._free = list(range(num_blocks))
        self._copies: list[Copy] = []

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._slot_of

    @property
    def num_used(self) -> int:
        return self.num_blocks - len(self._free)

    def keep(self, digest: bytes, device: int) -> None:
        """The content of a block that is about to be lent to somebody else."""
        if digest in self._slot_of:
            self._slot_of.move_to_end(digest)
            return
        if not self._free:
            if not self._slot_of:  # every slot holds what is on its way back
                return
            self._free.append(self._slot_of.popitem(last=False)[1])
        slot = self._free.pop()
        self._slot_of[digest] = slot
        self.num_kept += 1
        self._copies.append(Copy(device, slot, to_host=True))

    def take_out(self, digest: bytes) -> int:
        """A slot whose content is on its way back: nobody finds it any more, and nothing else comes there, until
        `fetch`."""
        return self._slot_of.pop(digest)

    def fetch(self, slot: int, device: int) -> None:
        self.num_fetched += 1
        self._copies.append(Copy(device, slot, to_host=False))
        self._free.append(slot)

    def take_copies(self) -> list[Copy]:
        """All that were planned since the last call."""
        copies, self._copies = self._copies, []
        return copies

    def faults(self) -> list[str]:
        """Every broken invariant between two schedules."""
        slots = [*self._slot_of.values(), *self._free]
        return (
            [] if sorted(slots) == list(range(self.num_blocks)) else ["slots of the host tier are lost or held twice"]
        )
