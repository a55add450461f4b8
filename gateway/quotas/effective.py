"""Which limits apply to whom on which model, and why. Pure: a principal and policies in, limits out.

All that match apply; the strictest decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.quotas.policy import LIMITS, MICRO, Policy, Weights
from gateway.scope import Principal

_PLACE = {name: place for place, name in enumerate(LIMITS)}


class Limit(NamedTuple):
    """One number of one policy, as it meets one principal."""

    policy: str
    name: str  # as the policy's field
    value: int  # money in millionths; 0 for allowed_models
    why: str  # the entry of applies_to that brought it
    whom: str  # whose bucket: all that share it have this in common
    shadow: bool = False
    weights: Weights = Weights()
    models: tuple[str, ...] = ()  # of allowed_models

    def words(self) -> str:
        """The limit as people say it."""
        if self.name == "cost_per_month":
            return f"a cost of {self.value / MICRO:.6f}".rstrip("0").rstrip(".") + " per month"
        if self.name == "allowed_models":
            return f"the models {', '.join(self.models) or '(none)'}"
        return f"{self.value} {self.name.replace('_', ' ')}"


def effective(principal: Principal, model: str, policies: Iterable[Policy]) -> list[Limit]:
    """The limits for this principal on this model, in the order of policy.LIMITS, the smallest first."""
    entries = subjects(principal)
    found = [
        limit
        for policy in policies
        if any(fnmatchcase(model, pattern) for pattern in policy.models)
        for why, whom in _matches(policy, entries)
        for limit in _limits(policy, why, whom)
    ]
    return sorted(found, key=lambda limit: (_PLACE[limit.name], limit.value, limit.policy, limit.whom))


def subjects(principal: Principal) -> dict[str, str]:
    """What policies may call the principal, each with whose own bucket it means."""
    own = owner(principal)
    found = {own: own, "everyone": own, f"role:{principal.role}": own}
    found |= {f"group:{group}": own for group in principal.groups}
    if principal.key_id:
        found[f"key:{principal.key_id}"] = f"key:{principal.key_id}"
    if principal.acting:  # a program that asks for somebody is limited as a whole too
        found[f"service_account:{principal.acting}"] = f"service_account:{principal.acting}"
    return found


def owner(principal: Principal) -> str:
    """user:<id> or service_account:<id>. Whomever a program asks for counts as a user."""
    is_user = principal.acting or principal.subject.startswith("usr_")
    return f"user:{principal.subject}" if is_user else f"service_account:{principal.subject}"


def explain(limits: Iterable[Limit]) -> list[str]:
    """A sentence a limit: what applies, by which policy, and why."""
    return [_sentence(limit) for limit in limits]


def _sentence(limit: Limit) -> str:
    whole = limit.whom.startswith(("everyone", "group:", "role:"))
    shared = f"shared by all of {limit.whom}" if whole else f"counted for {limit.whom} alone"
    ending = ", in shadow: not enforced" if limit.shadow else ""
    return f"{limit.words()}, by policy {limit.policy!r} because of {limit.why}, {shared}{ending}."


def _matches(policy: Policy, entries: dict[str, str]) -> list[tuple[str, str]]:
    """Why the policy applies and whose bucket counts; nobody has two of their own by one policy."""
    matched = [entry for entry in policy.applies_to if entry in entries]
    if not policy.each:
        return [(entry, entry) for entry in matched]
    owners: dict[str, str] = {}
    for entry in matched:
        owners.setdefault(entries[entry], entry)
    return [(why, whom) for whom, why in owners.items()]


def _limits(policy: Policy, why: str, whom: str) -> list[Limit]:
    found = []
    for name in LIMITS:
        if (value := policy.amount(name)) is not None:
            found.append(Limit(policy.id, name, value, why, whom, policy.shadow, policy.weights))
    if policy.allowed_models is not None:
        found.append(
            Limit(policy.id, "allowed_models", 0, why, whom, policy.shadow, policy.weights, policy.allowed_models)
        )
    return found
