"""The rules of the queue as simply as they can be said: lists, and a search through all of them at every step."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.queueing.ask import CLASSES, Ask, QueueLimits, Room


@dataclass
class Held:
    ask: Ask
    since: int


@dataclass
class Model:
    limits: QueueLimits
    room: Room
    epoch: int
    running: dict[str, Held] = field(default_factory=dict)
    line: list[Ask] = field(default_factory=list)  # in the order of arrival
    dead: set[str] = field(default_factory=set)
    service: dict[tuple[str, str], float] = field(default_factory=dict)
    due: dict[tuple[str, str], int] = field(default_factory=dict)
    passed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    level: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    virtual: float = 0.0
    rescued: bool = False

    def ask(self, ask: Ask, now: int) -> None:
        self.move_up(now)
        if ask.request_id in self.running or ask in self.line:
            return
        subject = (ask.klass, ask.subject)
        here = [(other.klass, other.subject) for other in self.line]
        of_class = [other for other in here if other[0] == ask.klass]
        own = self.service.get(subject, 0.0)
        running = [(held.ask.klass, held.ask.subject) for held in self.running.values()]
        if subject not in here and subject not in running:
            least = min(of_class, key=lambda other: self.service[other], default=None)
            own = max(own, self.settled(least, now) if least else self.level[ask.klass])
        if not of_class:
            self.passed[ask.klass] = max(self.passed[ask.klass], self.virtual)
        self.service[subject] = own
        if not self.line and self.fits(ask):
            self.grant(ask, now, rescued=False)
            return
        if subject not in here:
            self.due[subject] = now + round(self.limits.classes[ask.klass].starvation_seconds * 1000)
        self.line.append(ask)

    def settled(self, subject: tuple[str, str], now: int) -> float:
        """What a subject was really served: without what its turns in use are expected to take."""
        running = (held.ask for held in self.running.values())
        charged = sum(ask.tokens for ask in running if (ask.klass, ask.subject) == subject)
        return self.service[subject] - charged * self.scale(now)

    def release(self, request_id: str, served: float, now: int) -> None:
        self.line = [ask for ask in self.line if ask.request_id != request_id]
        if (held := self.running.pop(request_id, None)) is not None:
            self.serve(held.ask, served - held.ask.tokens, held.since)
        self.move_up(now)

    def move_up(self, now: int) -> None:
        self.running = {name: held for name, held in self.running.items() if name not in self.dead}
        self.line = [ask for ask in self.line if ask.request_id not in self.dead]
        while self.line:
            ask, rescued = self.next(now)
            if not self.fits(ask):
                return
            self.line.remove(ask)
            self.grant(ask, now, rescued)

    def next(self, now: int) -> tuple[Ask, bool]:
        here = {(ask.klass, ask.subject) for ask in self.line}
        late = [subject for subject in here if self.due[subject] <= now]
        if late and not self.rescued:
            first = min(late, key=lambda subject: (self.due[subject], CLASSES.index(subject[0]), subject[1]))
            return next(ask for ask in self.line if (ask.klass, ask.subject) == first), True
        klass = min({klass for klass, _ in here}, key=lambda name: (self.passed[name], CLASSES.index(name)))
        of_class = [ask for ask in self.line if ask.klass == klass]
        # Of equals the first in `line`, which came first.
        return min(of_class, key=lambda ask: self.service[klass, ask.subject]), False

    def fits(self, ask: Ask) -> bool:
        if len(self.running) >= self.room.capacity:
            return False
        held = sum(held.ask.kv_tokens for held in self.running.values())
        return not self.room.kv_tokens or not self.running or held + ask.kv_tokens <= self.room.kv_tokens

    def grant(self, ask: Ask, now: int, rescued: bool) -> None:
        if not rescued:
            self.virtual = max(self.virtual, self.passed[ask.klass])
            self.level[ask.klass] = self.settled((ask.klass, ask.subject), now)
        self.rescued = rescued
        self.running[ask.request_id] = Held(ask, now)
        self.due[ask.klass, ask.subject] = now + round(self.limits.classes[ask.klass].starvation_seconds * 1000)
        self.serve(ask, ask.tokens, now)

    def serve(self, ask: Ask, tokens: float, at: int) -> None:
        subject = (ask.klass, ask.subject)
        self.service[subject] = max(0.0, self.service.get(subject, 0.0) + tokens * self.scale(at))
        self.passed[ask.klass] += tokens / self.limits.classes[ask.klass].weight

    def scale(self, at: int) -> float:
        return float(2 ** ((at - self.epoch) / (self.limits.half_life_seconds * 1000)))
