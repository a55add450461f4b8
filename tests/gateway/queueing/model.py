"""The rules of the queue as simply as they can be said: lists, and a search through all of them at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from gateway.queueing.ask import CLASSES, Ask, Choice, QueueLimits, Room

Subject = tuple[str, str]  # and its class
Place = tuple[str, str, tuple[str, ...]]  # and the backends that are wanted


@dataclass
class Held:
    ask: Ask
    since: int
    backend: str


@dataclass
class Model:
    """`granted_at` tells where a turn was given: of equal backends any may be taken."""

    limits: QueueLimits
    rooms: Mapping[str, Room]
    granted_at: Callable[[str], str]
    epoch: int = 0
    running: dict[str, Held] = field(default_factory=dict)
    line: list[Ask] = field(default_factory=list)  # each subject's in the order in which they go
    ahead: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    service: dict[Subject, float] = field(default_factory=dict)
    due: dict[Place, int] = field(default_factory=dict)
    passed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    level: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    virtual: float = 0.0
    rescued: bool = False

    def ask(self, ask: Ask, now: int) -> None:
        before = [other.request_id for other in self.line]
        if ask.request_id in before and ask not in self.line:
            at = before.index(ask.request_id)
            del self.line[at]
            self.stand(ask, at, now)
        self.move_up(now)
        if ask.request_id in self.running or ask in self.line or self.is_lost(ask):
            return
        self.arrive(ask, now)
        wanted = {choice.backend for other in self.line for choice in other.choices}
        if free := self.free_to(ask, wanted):
            self.grant(ask, free, now, rescued=False)
        else:
            self.stand(ask, len(self.line), now)

    def move(self, ask: Ask, served: float, now: int) -> None:
        """Its backend was lost. What follows is `ask`."""
        self.arrive(ask, now)
        self.leave(ask.request_id)
        self.give_up(ask.request_id, served)
        self.bury()
        if free := self.free_to(ask, set()):
            self.grant(ask, free, now, rescued=True)
        else:
            before = [other for other in self.line if other.request_id in self.ahead]
            self.ahead.add(ask.request_id)
            self.stand(ask, len(before), now)

    def release(self, request_id: str, served: float, now: int) -> None:
        self.leave(request_id)
        self.give_up(request_id, served)
        self.move_up(now)

    def is_lost(self, ask: Ask) -> bool:
        return not any(choice.backend in self.rooms for choice in ask.choices)

    def arrive(self, ask: Ask, now: int) -> None:
        subject = subject_of(ask)
        here = {subject_of(other) for other in self.line}
        running = {subject_of(held.ask) for held in self.running.values()}
        of_class = [subject_of(other) for other in self.line if other.klass == ask.klass]
        own = self.service.get(subject, 0.0)
        if subject not in here and subject not in running:
            least = min(of_class, key=lambda other: self.service[other], default=None)
            own = max(own, self.settled(least, now) if least else self.level[ask.klass])
        if not of_class:
            self.passed[ask.klass] = max(self.passed[ask.klass], self.virtual)
        self.service[subject] = own

    def stand(self, ask: Ask, at: int, now: int) -> None:
        if ask.request_id in self.ahead:
            self.due[place_of(ask)] = 0
        elif place_of(ask) not in {place_of(other) for other in self.line}:
            self.due[place_of(ask)] = self.too_long_from(now, ask)
        self.line.insert(at, ask)

    def too_long_from(self, now: int, ask: Ask) -> int:
        return now + round(self.limits.classes[ask.klass].starvation_seconds * 1000)

    def settled(self, subject: Subject, now: int) -> float:
        """What a subject was really served: without what its turns in use are expected to take."""
        running = (held.ask for held in self.running.values())
        return self.service[subject] - sum(ask.tokens for ask in running if subject_of(ask) == subject) * self.scale(
            now
        )

    def leave(self, request_id: str) -> None:
        self.line = [ask for ask in self.line if ask.request_id != request_id]
        self.ahead.discard(request_id)

    def give_up(self, request_id: str, served: float) -> None:
        if (held := self.running.pop(request_id, None)) is not None:
            self.serve(held.ask, served - held.ask.tokens, held.since)

    def bury(self) -> None:
        self.running = {name: held for name, held in self.running.items() if name not in self.dead}
        self.line = [ask for ask in self.line if ask.request_id not in self.dead]
        self.ahead -= self.dead

    def move_up(self, now: int) -> None:
        self.bury()
        taken: set[str] = set()
        while hopeful := [ask for ask in self.line if self.open_to(ask, taken)]:
            ask, rescued = self.next(hopeful, now)
            if free := self.free_to(ask, taken):
                self.leave(ask.request_id)
                self.grant(ask, free, now, rescued)
            else:
                taken |= {choice.backend for choice in ask.choices}

    def next(self, hopeful: list[Ask], now: int) -> tuple[Ask, bool]:
        late = [place for place in map(place_of, hopeful) if self.due[place] <= now]
        if late and not self.rescued:
            first = min(late, key=lambda place: (self.due[place], CLASSES.index(place[0]), place[1:]))
            return next(ask for ask in hopeful if place_of(ask) == first), True
        klass = min({ask.klass for ask in hopeful}, key=lambda name: (self.passed[name], CLASSES.index(name)))
        # Of equals the first in `line`.
        of_class = [ask for ask in hopeful if ask.klass == klass]
        return min(of_class, key=lambda ask: self.service[subject_of(ask)]), False

    def open_to(self, ask: Ask, taken: Set[str]) -> list[Choice]:
        """Choices where more may run."""
        return [
            choice
            for choice in ask.choices
            if choice.backend not in taken
            and choice.backend in self.rooms
            and len(self.at(choice.backend)) < self.rooms[choice.backend].capacity
        ]

    def free_to(self, ask: Ask, taken: Set[str]) -> list[Choice]:
        """Choices where it fits."""
        return [choice for choice in self.open_to(ask, taken) if self.fits(ask, choice.backend)]

    def fits(self, ask: Ask, backend: str) -> bool:
        held, cache = [held.ask.kv_tokens for held in self.at(backend)], self.rooms[backend].kv_tokens
        return not cache or not held or sum(held) + ask.kv_tokens <= cache

    def at(self, backend: str) -> list[Held]:
        return [held for held in self.running.values() if held.backend == backend]

    def cost(self, choice: Choice) -> tuple[float, float]:
        running, room = len(self.at(choice.backend)), self.rooms[choice.backend]
        return choice.seconds + running * room.each_seconds, running / room.capacity

    def grant(self, ask: Ask, free: list[Choice], now: int, rescued: bool) -> None:
        backend = self.granted_at(ask.request_id)
        assert min(map(self.cost, free)) in [self.cost(choice) for choice in free if choice.backend == backend]
        if not rescued:
            self.virtual = max(self.virtual, self.passed[ask.klass])
            self.level[ask.klass] = self.settled(subject_of(ask), now)
        self.rescued = rescued
        self.running[ask.request_id] = Held(ask, now, backend)
        self.due[place_of(ask)] = self.too_long_from(now, ask)
        self.serve(ask, ask.tokens, now)

    def serve(self, ask: Ask, tokens: float, at: int) -> None:
        subject = subject_of(ask)
        self.service[subject] = max(0.0, self.service.get(subject, 0.0) + tokens * self.scale(at))
        self.passed[ask.klass] += tokens / self.limits.classes[ask.klass].weight

    def scale(self, at: int) -> float:
        return float(2 ** ((at - self.epoch) / (self.limits.half_life_seconds * 1000)))


def subject_of(ask: Ask) -> Subject:
    return ask.klass, ask.subject


def place_of(ask: Ask) -> Place:
    return ask.klass, ask.subject, tuple(sorted({choice.backend for choice in ask.choices}))
