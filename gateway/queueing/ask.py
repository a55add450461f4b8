"""What is asked of the queue, and what it answers. Plain data: knows no Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from gateway.scope import QueueClass

# Their places in this order are what the scripts call them.
CLASSES: tuple[QueueClass, ...] = ("interactive", "api", "batch")


class Choice(NamedTuple):
    """A backend that a request may go to; `seconds`: to its first token there, were nobody else running."""

    backend: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """One request that wants a turn."""

    request_id: str
    klass: QueueClass
    subject: str  # who shares fairly with others; printable, so that no two can be taken for one another
    tokens: float  # the service it is expected to take, weighted; corrected when it gives its turn back
    choices: tuple[Choice, ...]  # at least one
    kv_tokens: int = 0  # what it will hold in the engine's cache: prompt and expected output
    reserved: bool = False  # there is a reservation of its quota: without it, no turn
    model: str = ""  # for people to read


class State(IntEnum):
    GRANTED = 1
    WAITING = 0
    FULL = -1  # the line, its class's part of it, or its subject's
    LATE = -2  # its turn would come after its longest wait
    UNRESERVED = -3  # its reservation was refused, or has run out
    LOST = -4  # none of its choices is there any more; if it waits, it keeps its place for one who soon asks again


class Lost(Exception):
    """None of the choices is there any more. To be asked again, with others; one that waited still has its place."""


class Answer(NamedTuple):
    state: State
    place: int  # 1 = next; of a full line: how many stand in it
    eta_ms: int  # until its turn, or until a full line moves; -1 = nothing is known yet
    now_ms: int  # server time
    next_expiry_ms: int  # until a lease may run out; -1 = there is none
    backend: str  # of the turn; else empty

    @classmethod
    def of(cls, raw: Sequence[Any]) -> Answer:
        state, place, eta_ms, now_ms, next_expiry_ms, backend = raw
        return cls(State(state), place, eta_ms, now_ms, next_expiry_ms, backend.decode())


class Turn(NamedTuple):
    granted_ms: int  # server time
    waited: bool
    backend: str


@dataclass(frozen=True, slots=True)
class ClassLimits:
    weight: float  # its share of the service while others wait too
    longest_line: int
    wait_seconds: float
    starvation_seconds: float  # a subject of it that had no turn for so long goes first


@dataclass(frozen=True, slots=True)
class QueueLimits:
    longest_line: int
    classes: Mapping[QueueClass, ClassLimits]
    lease_seconds: float
    half_life_seconds: float = 300.0  # of the memory of who was served
    # How often a process says that its waiters live. Three may be missed before a waiter counts as dead.
    heartbeat_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Room:
    """What a backend has room for, as its caller knows it now."""

    capacity: int  # requests at once; 0 = it takes nobody new at the moment
    kv_tokens: int = 0  # tokens of cache; 0 = unknown
    each_seconds: float = 0.0  # by how much one that runs there delays the first token of one that comes
