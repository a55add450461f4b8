"""All the engines behind the door: what they serve, under which names, in which lines. Knows no request."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from backends.base import Load, ModelCard
from gateway.errors import EngineAway, ModelNotFound
from gateway.routing.components import lines_of
from gateway.routing.health import Health, State
from gateway.routing.member import Member, make_member
from gateway.routing.prefixes import PrefixMap
from gateway.routing.usable import usable
from gateway.routing.watch import Seen, Watch
from gateway.settings.engines import BackendSettings

log = logging.getLogger("sekisho.routing")

# An unknown model name asks the engines again, but a client that repeats one does not become a load on them.
_RECHECK_SECONDS = 2.0
# What has left the settings may finish what it has begun.
_LEAVING_SECONDS = 1800.0


class Fleet:
    """`start` before use, `aclose` after. `members` are in the order of the settings."""

    def __init__(self, members: Sequence[Member], aliases: Mapping[str, str]) -> None:
        self.members = {member.name: member for member in members}
        self.aliases = dict(aliases)
        self.prefixes = PrefixMap()
        self.changed = asyncio.Event()  # what is there, or how it is
        self._cards: dict[str, ModelCard] = {}
        self._lines: dict[str, str] = {}
        self._told: dict[str, State] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        for member in self.members.values():
            self._watch(member)

    async def aclose(self) -> None:
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await asyncio.gather(*(_close(member) for member in self.members.values()))

    @property
    def ready(self) -> bool:
        """Whether any engine takes requests."""
        now = time.monotonic()
        return any(member.health.takes(now) for member in self.members.values())

    def resolve(self, name: str) -> str:
        """The model that an alias stands for; any other name is itself."""
        return self.aliases.get(name, name)

    def knows(self, name: str) -> bool:
        """Whether it is the name of a model that was served at the last look, or an alias of one."""
        return name in self._cards

    def models(self) -> list[ModelCard]:
        """As people call them, aliases included. Where several engines serve one, it is what the least of them is."""
        return list(self._cards.values())

    def serving(self, model: str) -> list[Member]:
        """Those that have the model, whatever their health."""
        return [member for member in self.members.values() if model in member.names]

    def lacks(self, model: str) -> bool:
        """Whether all engines are there and none has the model, as of the last look."""
        now = time.monotonic()
        return not self.serving(model) and all(member.health.takes(now) for member in self.members.values())

    async def card(self, model: str) -> ModelCard:
        """Raises ModelNotFound, or EngineAway while it cannot be known."""
        if model not in self._cards:
            await self.look(_RECHECK_SECONDS)
        if model in self._cards:
            return self._cards[model]
        if not self._cards:
            raise EngineAway("No engine is ready yet. Try again shortly.")
        raise ModelNotFound(f"The model `{model[:200]}` does not exist. See GET /v1/models for those that do.")

    async def look(self, newest: float = 0.0) -> None:
        """Look at every engine now, but at none that was looked at within so many seconds."""
        watches = [member.watch for member in self.members.values() if member.watch is not None]
        await asyncio.gather(*(watch.look(newest) for watch in watches))

    def line(self, member: Member) -> str:
        """The waiting line that leads to it."""
        return self._lines.get(member.name, member.name)

    def held(self) -> dict[str, float]:
        return {member.name: member.in_flight for member in self.members.values()}

    def up(self) -> dict[str, float]:
        now = time.monotonic()
        return {member.name: float(member.health.takes(now)) for member in self.members.values()}

    def states(self) -> dict[tuple[str, ...], float]:
        """Of each backend and state, whether it is in it."""
        now = time.monotonic()
        found = {member.name: member.health.state(now) for member in self.members.values()}
        return {(name, state.value): float(state is at) for name, at in found.items() for state in State}

    def stale(self) -> dict[str, float]:
        return {member.name: float(bool(member.stale)) for member in self.members.values()}

    def loads(self, figure: Callable[[Load], float | None]) -> dict[str, float]:
        """A figure of those engines that tell it."""
        found = {member.name: figure(member.load) for member in self.members.values()}
        return {name: value for name, value in found.items() if value is not None}

    def healths(self) -> dict[str, Health]:
        return {member.name: member.health for member in self.members.values()}

    def lines(self) -> dict[str, list[Member]]:
        """Every line with the backends that it leads to."""
        found: dict[str, list[Member]] = {}
        for member in self.members.values():
            found.setdefault(self.line(member), []).append(member)
        return found

    def shares(self, members: Sequence[Member]) -> dict[str, float]:
        """The part of its capacity that each of a line may be given now; those that may be given nobody are left out.

        As `usable` has it for each model; one that is the last of any model is not held back.
        """
        now, found = time.monotonic(), dict[str, float]()
        for model in {model for member in members for model in member.names}:
            healths = {member.name: member.health for member in members if model in member.names}
            for name, share in usable(healths, now).shares.items():
                found[name] = max(share, found.get(name, 0.0))
        return found

    async def apply(
        self, wanted: Sequence[BackendSettings], aliases: Mapping[str, str], drained: Collection[str] = ()
    ) -> None:
        """Take over new settings. What leaves finishes what it has begun, as do those that are `drained`, which take
        nobody new. Raises NoKey before anything has changed."""
        before = self.members
        kept = {one.name: before[one.name] for one in wanted if one.name in before and before[one.name].reaches_as(one)}
        made = {one.name: make_member(one) for one in wanted if one.name not in kept}
        self.members = {one.name: kept.get(one.name) or made[one.name] for one in wanted}
        self.aliases = dict(aliases)
        for one in wanted:
            member = self.members[one.name]
            member.settings = one
            member.health.drained = one.name in drained
            self.note(member)
        for member in made.values():
            self._watch(member)
        for name, member in before.items():
            if self.members.get(name) is not member:
                task = asyncio.create_task(self._leave(member))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
        self._arrange()
        await self.look()

    def _watch(self, member: Member) -> None:
        member.watch = Watch(member.backend, lambda seen: self._found(member, seen), lambda: member.in_flight)
        member.watch.start()

    def _found(self, member: Member, seen: Seen) -> None:
        member.health.observe_probe(seen.readiness, time.monotonic())
        member.load = seen.load
        if seen.stale != member.stale:
            log.warning("backend %s: %s", member.name, seen.stale or "its load figures can be believed again")
        member.stale = seen.stale
        if seen.models is not None:
            member.serves(seen.models)
            self._arrange()
        self.note(member)

    def note(self, member: Member) -> None:
        """Its health may have changed: say so once."""
        verdict = member.health.verdict(time.monotonic())
        if verdict.state is self._told.get(member.name):
            return
        self._told[member.name] = verdict.state
        self.changed.set()
        log.warning("backend %s is %s%s", member.name, verdict.state.value, verdict.why and f": {verdict.why}")
        if verdict.state is State.DOWN:
            self.prefixes.forget(member.name)

    def heard(self, name: str) -> None:
        """Another gateway has told how it is."""
        if (member := self.members.get(name)) is not None:
            self.note(member)
            if member.watch is not None and member.health.state(time.monotonic()) is State.DOWN:
                member.watch.hurry()

    def _arrange(self) -> None:
        """What follows from what each backend serves: the cards that people see, and the lines."""
        cards: dict[str, ModelCard] = {}
        for member in self.members.values():
            for name, card in member.cards.items():
                cards[name] = _lesser(cards[name], card) if name in cards else card
        stand_ins = {alias: cards[model] for alias, model in self.aliases.items() if model in cards}
        named = {alias: replace(card, id=alias) for alias, card in stand_ins.items()}
        self._cards = cards | named
        self.changed.set()
        self._lines = {}
        for tier in {member.settings.tier for member in self.members.values()}:
            members = [member for member in self.members.values() if member.settings.tier == tier]
            self._lines |= lines_of({member.name: member.names for member in members})

    async def _leave(self, member: Member) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_SECONDS):
                await member.idle.wait()
        await _close(member)
        log.warning("backend %s has left", member.name)


async def _close(member: Member) -> None:
    if member.watch is not None:
        await member.watch.aclose()
    await member.backend.aclose()


def _lesser(one: ModelCard, other: ModelCard) -> ModelCard:
    known = [card for card in (one, other) if card.context_length is not None]
    return min(known, key=lambda card: card.context_length or 0, default=one)
