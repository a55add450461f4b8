"""The quotas as simply as they can be said: sums over all that ever happened. What the scripts answer is held to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gateway.quotas.buckets import Bucket, Usage, Weights

MINUTE_MS = 60_000
UNTOLD = Usage(requests=1)


@dataclass
class Flow:
    level: float = 0.0
    at: int = 0

    def drained(self, now: int, limit: int) -> float:
        self.at = min(self.at, now)
        return max(0.0, self.level - (now - self.at) * limit / MINUTE_MS)

    def pour(self, change: float, now: int, limit: int) -> None:
        self.level, self.at = max(0.0, self.drained(now, limit) + change), now


@dataclass
class Part:
    """What one request has of one bucket."""

    key: str
    kind: str
    limit: int
    weights: Weights
    taken: bool
    held: int = 0
    charged: int = 0
    dropped: bool = False  # its lease was seen to have run out: a clock that jumps back does not bring it back

    def amount(self, used: Usage) -> int:
        return 1 if self.kind == "z" else self.weights.amount(used)


@dataclass
class Request:
    parts: list[Part]
    expires: int
    told: Usage = UNTOLD
    ended: bool = False


@dataclass
class Model:
    """Every request there ever was, and the levels of the flows; all else is summed up anew at each question."""

    lease_ms: int
    requests: dict[str, Request] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)
    settled: dict[str, Usage] = field(default_factory=dict)  # what the engine says, once it was booked

    def parts(self, key: str) -> list[tuple[str, Request, Part]]:
        return [
            (name, request, part)
            for name, request in self.requests.items()
            for part in request.parts
            if part.key == key and part.taken
        ]

    def counted(self, key: str) -> int:
        return sum(part.charged for _, _, part in self.parts(key))

    def held(self, key: str) -> int:
        return sum(part.held for _, request, part in self.parts(key) if not request.ended)

    def in_flight(self, key: str, now: int) -> int:
        here = [(request, part) for _, request, part in self.parts(key) if not request.ended]
        return sum(request.expires > now and not part.dropped for request, part in here)

    def left(self, part: Part, now: int) -> float:
        if part.kind == "z":
            for _, request, other in self.parts(part.key):
                other.dropped = other.dropped or request.expires <= now
            return part.limit - self.in_flight(part.key, now)
        if part.kind == "c":
            return part.limit - self.counted(part.key)
        flow = self.flows.setdefault(part.key, Flow())
        return part.limit - flow.drained(now, part.limit) - self.held(part.key)

    def reserve(self, name: str, buckets: tuple[Bucket, ...], size: Usage, now: int) -> bool:
        if name in self.requests:
            return not self.requests[name].ended
        parts, fits_all = [], True
        for bucket in buckets:
            part = _part(bucket, now)
            wanted = min(part.amount(size), max(part.limit, part.amount(size._replace(output=0))))
            part.taken = wanted <= self.left(part, now) + 1e-6
            fits_all = fits_all and (part.taken or bucket.limit.shadow)
            part.charged, part.held = (0, wanted) if part.kind == "f" else (wanted, 0)
            parts.append(part)
        if fits_all:
            self.requests[name] = Request(parts, now + self.lease_ms)
            for part in parts:
                if part.taken and part.kind in "af":
                    self.flows[part.key].pour(part.charged, now, part.limit)
        return fits_all

    def progress(self, name: str, used: Usage, now: int) -> None:
        request = self.requests.get(name)
        if request is None or request.ended:
            return
        request.expires, request.told = now + self.lease_ms, used
        for part in request.parts:
            part.dropped = False
            more = part.amount(used) - part.charged
            if not part.taken or part.kind in "za" or more <= 0:
                continue
            part.held = max(0, part.held - more) if part.kind == "f" else 0
            part.charged += more
            if part.kind == "f":
                self.flows[part.key].pour(more, now, part.limit)

    def settle(self, name: str, used: Usage, now: int) -> bool:
        request = self.requests.get(name)
        if request is None or request.ended:
            return False
        for part in request.parts:
            change = part.amount(used) - part.charged
            if part.kind == "z" or (part.kind == "a" and change < 0):
                continue
            if part.taken and part.kind in "af" and (change or part.held):
                self.flows[part.key].pour(change, now, part.limit)
            part.charged += change
        request.ended = True
        self.settled[name] = used
        return True

    def expired(self, now: int, grace: int) -> list[str]:
        return [name for name, one in self.requests.items() if not one.ended and one.expires <= now - grace]


def _part(bucket: Bucket, now: int) -> Part:
    kind, _, _, limit, first_end, _, *weights = bucket.rule.split()
    key = bucket.keys[1] if kind == "c" and now >= int(first_end) else bucket.keys[0]
    return Part(key, kind, int(limit), Weights(*map(int, weights)), taken=False)


def rounded(value: float) -> int:
    """Down, as the scripts answer, but for what only arithmetic with broken numbers took away."""
    return math.floor(value + 1e-6)
