"""What is wrong with a policy: all of it at once, a sentence each. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import msgspec

from gateway.quotas.policy import LIMITS, PERIODS, UNITS, Policy, money
from gateway.scope import Role

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_SCOPES = ("user", "group", "service_account", "key", "role")
_LARGEST = 10**12
_LARGEST_MODEL = 10**8
_LARGEST_WEIGHT = 1000.0
_TYPES = get_type_hints(Policy)


def read(fields: Mapping[str, Any]) -> tuple[Policy | None, list[str]]:
    """A policy from a file or a request's body, or all that keeps it from being one."""
    faults, good = [], {}
    for name, value in fields.items():
        if name not in Policy.__struct_fields__:
            faults.append(
                f"{name}: is not a field of a policy; known are {', '.join(sorted(Policy.__struct_fields__))}."
            )
            continue
        try:
            good[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            faults.append(f"{name}: {value!r} cannot be used: {_plain(error)}.")
    if "id" not in fields:
        faults.append("id: is missing; a policy needs a name.")
    policy = Policy(**({"id": "unnamed"} | good))
    faults += validate(policy)
    return (None, faults) if faults else (policy, [])


def validate(policy: Policy) -> list[str]:
    """All faults; none for a policy that can be used."""
    return [*_name(policy), *_whom(policy), *_models(policy), *_numbers(policy), *_weights(policy), *_sense(policy)]


def _plain(error: msgspec.ValidationError) -> str:
    return str(error)[0].lower() + str(error)[1:].replace("`", "")


def _name(policy: Policy) -> Iterator[str]:
    if not _NAME.fullmatch(policy.id):
        yield f"id: {policy.id[:80]!r} cannot be used: expected 1-64 lower case letters, digits and _ - . only."


def _whom(policy: Policy) -> Iterator[str]:
    if not policy.applies_to:
        yield "applies_to: is empty; name whom the policy applies to, such as everyone or group:research."
    for entry in policy.applies_to:
        scope, _, rest = entry.partition(":")
        if entry != "everyone" and (scope not in _SCOPES or not rest):
            forms = ", ".join(f"{name}:<id>" for name in _SCOPES)
            yield f"applies_to: {entry[:80]!r} cannot be used: expected everyone, {forms}."
        elif scope == "role" and rest not in get_args(Role):
            yield f"applies_to: {entry[:80]!r} names no role; roles are {', '.join(get_args(Role))}."
    if len(set(policy.applies_to)) < len(policy.applies_to):
        yield "applies_to: names somebody twice."


def _models(policy: Policy) -> Iterator[str]:
    if not policy.models:
        yield "models: is empty; leave it out for all models, or set allowed_models to [] to allow none."
    if not all(policy.models):
        yield "models: an empty name matches no model."
    if policy.allowed_models is not None and not all(policy.allowed_models):
        yield "allowed_models: an empty name matches no model."


def _numbers(policy: Policy) -> Iterator[str]:
    for name in LIMITS:
        value = getattr(policy, name)
        if isinstance(value, str):
            try:
                value = money(value)
            except ValueError as error:
                yield f"{name}: {getattr(policy, name)[:40]!r} cannot be used: {error}."
                continue
        if not isinstance(value, int):
            continue
        largest = _LARGEST_MODEL if name.startswith("max_") or name == "concurrent_requests" else _LARGEST
        if name == "cost_per_month":
            largest *= 1000
        if value < 1:
            yield f"{name}: {getattr(policy, name)} cannot be used: expected more than 0; to block, allow no models."
        elif value > largest:
            yield f"{name}: {getattr(policy, name)} is beyond reason; leave it out for no limit."


def _weights(policy: Policy) -> Iterator[str]:
    for name in policy.weights.__struct_fields__:
        value = getattr(policy.weights, name)
        if not math.isfinite(value) or not 0 <= value <= _LARGEST_WEIGHT:
            yield f"weights.{name}: {value} cannot be used: expected 0 to {_LARGEST_WEIGHT:g}."


def _sense(policy: Policy) -> Iterator[str]:
    """Limits that contradict each other: one of the two could never be reached."""
    if all(getattr(policy, name) is None for name in LIMITS):
        yield f"{policy.id[:80]}: limits nothing; set one of {', '.join(LIMITS)}."
    yield from _longer_periods(policy)
    yield from _parts_and_totals(policy)
    context, output = policy.max_context_tokens, policy.max_output_tokens
    if context is not None and output is not None and output > context:
        yield f"max_output_tokens: {output} is more than max_context_tokens, {context}, which it is part of."


def _longer_periods(policy: Policy) -> Iterator[str]:
    for unit in UNITS:
        names = [f"{unit}_per_{period}" for period in PERIODS]
        known = [(name, value) for name in names if (value := getattr(policy, name)) is not None]
        for (short, less), (long, more) in pairwise(known):
            if less > more:
                yield f"{short}: {less} is more than {long}, {more}, and can never be reached."


def _parts_and_totals(policy: Policy) -> Iterator[str]:
    for period in PERIODS:
        total = getattr(policy, f"tokens_per_{period}")
        for part, weight in (("input", min(1.0, policy.weights.cached_input)), ("output", policy.weights.output)):
            value = getattr(policy, f"{part}_tokens_per_{period}")
            if total is not None and value is not None and value * weight > total:
                yield f"{part}_tokens_per_{period}: {value} is more than tokens_per_{period}, {total}, as weighted."
