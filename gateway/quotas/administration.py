"""Policies as administrators work with them: made, replaced, deleted, and seen in effect. Checks no right."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from gateway.errors import BadRequest, Conflict, NotFound
from gateway.quotas.effective import Limit, explain
from gateway.quotas.policy import MICRO, Policy
from gateway.quotas.service import QuotaService, State
from gateway.quotas.validation import read
from gateway.scope import Principal, Role
from gateway.store.directory import Actor, Directory

_LONGEST_TEXT = 1000
_LONGEST_NAME = 300
_MOST_NAMES = 1000
_MOST_FAULTS = 20
_LONGEST_FAULT = 300
# Ours to set, not the sender's.
_OWN_FIELDS = ("id", "created")
# Paths of the admin API, where a policy's name would stand.
_TAKEN_NAMES = frozenset({"effective", "what-if"})


class PolicyShown(Policy, frozen=True, kw_only=True, omit_defaults=False):
    """A limit that is null is none."""

    object: Literal["policy"] = "policy"


class LimitShown(msgspec.Struct, frozen=True, kw_only=True):
    """why: the entry of applies_to that brought it. whom: who shares what is left. Costs are decimal numbers.

    left, reset_seconds: now, and until it is whole again; null for what one look at a request decides.
    """

    policy: str
    limit: str
    value: int | str | tuple[str, ...]
    why: str
    whom: str
    shadow: bool
    left: int | str | None
    reset_seconds: float | None
    sentence: str


class EffectiveShown(msgspec.Struct, frozen=True, kw_only=True):
    """All of the limits hold; the strictest decides."""

    object: Literal["effective_limits"] = "effective_limits"
    subject: str
    role: Role
    groups: tuple[str, ...]
    model: str
    limits: list[LimitShown]


def shown(policy: Policy) -> PolicyShown:
    return PolicyShown(**{name: getattr(policy, name) for name in policy.__struct_fields__})


def policy_of(name: str, fields: Mapping[str, Any]) -> tuple[Policy | None, list[str]]:
    """A policy of this name, or all that keeps it from being one, a sentence each."""
    faults = [f"{own}: is not to be given; a policy's name stands outside it." for own in _OWN_FIELDS if own in fields]
    given = {field: value for field, value in fields.items() if field not in _OWN_FIELDS}
    try:
        policy, found = read(given | {"id": name})
    except RecursionError:
        return None, [*faults, "Lists are nested too deeply."]
    faults += [f"id: {name!r} means something else to the admin API; choose another."] if name in _TAKEN_NAMES else []
    faults += [*found, *(_oversized(policy) if policy else ())]
    return (None, [_bounded(fault) for fault in faults]) if faults else (policy, [])


def checked(name: str, fields: Mapping[str, Any]) -> Policy:
    """Raises one BadRequest with all faults."""
    policy, faults = policy_of(name, fields)
    if policy is None:
        more = [f"And {len(faults) - _MOST_FAULTS} more."] if len(faults) > _MOST_FAULTS else []
        raise BadRequest(" ".join(faults[:_MOST_FAULTS] + more), code="invalid_policy")
    return policy


async def put(directory: Directory, actor: Actor, policy: Policy) -> Policy:
    """The whole policy as given, whether or not there was one. It counts within a second."""
    try:
        return await _replace(directory, actor, policy)
    except NotFound:
        made = msgspec.structs.replace(policy, created=int(time.time()))
    try:
        await directory.create(actor, made)
    except Conflict:  # another administrator was quicker
        return await _replace(directory, actor, policy)
    return made


async def delete(directory: Directory, actor: Actor, name: str) -> None:
    await directory.delete(actor, Policy, name)


async def in_effect(quotas: QuotaService, who: Principal, model: str) -> EffectiveShown:
    """Which limits hold for somebody on a model, by which policy and why, and how much of each is left."""
    limits = await quotas.effective(who, model)
    states = {state.limit: state for state in await quotas.state(who, model)}
    rows = [_limit(limit, states.get(limit), sentence) for limit, sentence in zip(limits, explain(limits), strict=True)]
    return EffectiveShown(subject=who.subject, role=who.role, groups=who.groups, model=model, limits=rows)


async def _replace(directory: Directory, actor: Actor, policy: Policy) -> Policy:
    return await directory.change(
        actor, Policy, policy.id, lambda before: msgspec.structs.replace(policy, created=before.created)
    )


def _limit(limit: Limit, state: State | None, sentence: str) -> LimitShown:
    left = None if state is None else max(0, state.left)
    return LimitShown(
        policy=limit.policy,
        limit=limit.name,
        value=value_of(limit),
        why=limit.why,
        whom=limit.whom,
        shadow=limit.shadow,
        left=None if left is None else spoken(limit, left),
        reset_seconds=None if state is None else max(0, state.reset_ms) / 1000,
        sentence=sentence,
    )


def value_of(limit: Limit) -> int | str | tuple[str, ...]:
    return limit.models if limit.name == "allowed_models" else spoken(limit, limit.value)


def spoken(limit: Limit, amount: int) -> int | str:
    """An amount of what a limit counts: money as a decimal number."""
    return _money(amount) if limit.name == "cost_per_month" else amount


def _money(millionths: int) -> str:
    return f"{millionths // MICRO}.{millionths % MICRO:06d}".rstrip("0").rstrip(".")


def _oversized(policy: Policy) -> Iterator[str]:
    """What is stored and shown in tables stays readable there."""
    if len(policy.description) > _LONGEST_TEXT or not policy.description.isprintable():
        yield f"description: expected at most {_LONGEST_TEXT} printable characters."
    for field in ("applies_to", "models", "allowed_models"):
        names = getattr(policy, field) or ()
        if len(names) > _MOST_NAMES:
            yield f"{field}: expected at most {_MOST_NAMES} entries."
        elif not all(len(name) <= _LONGEST_NAME and name.isprintable() for name in names):
            yield f"{field}: expected names of at most {_LONGEST_NAME} printable characters."


def _bounded(fault: str) -> str:
    return fault if len(fault) <= _LONGEST_FAULT else f"{fault[:_LONGEST_FAULT]}..."
