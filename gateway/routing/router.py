"""Where a request may go, tier by tier, and what each place would cost it. Decides nothing that needs Redis."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from backends.base import Fields, Refusal
from gateway.errors import BadRequest, ModelNotFound, StaysInside
from gateway.routing.fleet import Fleet
from gateway.routing.health import State
from gateway.routing.member import Member
from gateway.routing.prefixes import Chain
from gateway.routing.score import Candidate, Choice, choices
from gateway.settings.engines import DATA_CLASS, EVERYBODY, BackendSettings

_DATA_CLASS = re.compile(DATA_CLASS)
_TRIAL = 1000.0  # times cheaper


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a request says where it may go."""

    model: str
    path: str
    fields: Fields
    groups: Collection[str]
    data_class: str
    prompt_tokens: int  # an estimate
    chain: Chain
    goes_on: bool = False  # with an answer that another engine began


class Way(NamedTuple):
    """A line, and the backends at its end that would do."""

    line: str
    choices: tuple[Choice, ...]


def ways(fleet: Fleet, wish: Wish, without: Collection[str] = ()) -> list[Way]:
    """The lines of the lowest tier first; backends `without` are left out. Empty: all that would do are.

    Raises ModelNotFound, StaysInside where the request may not leave the house for the only ones that serve it, and
    BadRequest for what none of them can do.
    """
    serving = fleet.serving(wish.model)
    if not serving:
        raise ModelNotFound(f"The model `{wish.model[:200]}` is not served any more.")
    inside = [member for member in serving if may_go(member.settings, wish.groups, wish.data_class)]
    if not inside:
        raise StaysInside(wish.model, wish.data_class)
    found = [member for member in _able(inside, wish) if member.name not in without]
    if wish.goes_on and wish.path == "/v1/chat/completions":
        found = [member for member in found if member.backend.continues]
    lines: dict[str, list[Member]] = {}
    for member in sorted(found, key=lambda it: it.settings.tier):
        lines.setdefault(fleet.line(member), []).append(member)
    warm = fleet.prefixes.warm(wish.chain)
    return [
        Way(line, choices(wish.prompt_tokens, [candidate(member, warm.get(member.name, 0.0)) for member in members]))
        for line, members in lines.items()
    ]


def data_class(header: bytes | None, otherwise: str) -> str:
    """Of a request, by its X-Data-Class. Raises BadRequest."""
    if header is None:
        return otherwise
    if not _DATA_CLASS.fullmatch(header.decode("latin-1")):
        raise BadRequest("X-Data-Class must be a name such as public: a-z, 0-9, - and _.", param="X-Data-Class")
    return header.decode()


def may_go(backend: BackendSettings, groups: Collection[str], data_class: str) -> bool:
    """Whether a request may go there: always inside the house, outside only where whose it is and what is in it may."""
    if not backend.external:
        return True
    allowed = backend.allow_groups
    return data_class in backend.allow_data_classes and (EVERYBODY in allowed or not set(groups).isdisjoint(allowed))


def candidate(member: Member, warm: float = 0.0) -> Candidate:
    """`warm`: part of the prompt that it has computed already."""
    now = time.monotonic()
    # Its own figures say what it has from elsewhere; of stale ones the worst is believed.
    others = max(0, (member.load.running or 0) - member.in_flight) if member.backend.trusts_load else 0
    if member.stale:
        others = member.capacity
    # A trial has to come, or nobody learns that it is well again; should it fail, another is asked.
    on_trial = member.health.state(now) is State.FAILING
    return Candidate(
        member.name,
        member.speed,
        warm,
        weight=member.settings.weight * (_TRIAL if on_trial else 1),
        slowness=member.health.slowness(now),
        others=others,
    )


def _able(members: Sequence[Member], wish: Wish) -> list[Member]:
    refusals: list[Refusal] = []
    able = []
    for member in members:
        refusal = member.backend.refusal(wish.path, _as_named_by(member, wish))
        if refusal is None:
            able.append(member)
        else:
            refusals.append(refusal)
    if not able:
        raise BadRequest(refusals[0].message, param=refusals[0].param, code=refusals[0].code)
    return able


def _as_named_by(member: Member, wish: Wish) -> Fields:
    name = member.names[wish.model]
    return wish.fields if name == wish.model else {**wish.fields, "model": msgspec.Raw(msgspec.json.encode(name))}
