"""How much output a request is expected to have: what is reserved for it before anyone knows.

The rule: of each subject and model the 90th percentile of output tokens is learned, by a step up at each longer answer
and a ninth of that step down at each shorter one, in proportion to itself. Reserved is that times MARGIN, at least
FLOOR, and at most what the request can have: the client's limit, or the model's room where it gave none. So neither a
client that gives no limit nor one that gives a huge one is let through free or blocked by a wild guess. Nothing
learned yet counts as UNLEARNED. No bucket is asked for more than it can hold. What a request uses beyond its
reservation is charged when it is known.

The arithmetic is in scripts.py, where it costs no round trip; here are its constants and a memory of its results.
"""

from __future__ import annotations

from collections import OrderedDict

MARGIN = 1.25
FLOOR = 64
UNLEARNED = 512

_CAPACITY = 4096


class Expected:
    """What this process last heard was reserved, for those who must know before they ask: the queue's estimate."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], int] = OrderedDict()

    def note(self, whom: str, model: str, output: int, room: int) -> None:
        if output == room:
            return  # as much as could be: of what is learned it says nothing
        self._known[whom, model] = output
        self._known.move_to_end((whom, model))
        if len(self._known) > _CAPACITY:
            self._known.popitem(last=False)

    def output(self, whom: str, model: str, room: int) -> int:
        return min(room, self._known.get((whom, model), UNLEARNED))
