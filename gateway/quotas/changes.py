"""Policies in a file under version control: read with all faults at once, compared with what is stored, applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import yaml

from gateway.errors import Conflict
from gateway.quotas import administration
from gateway.quotas.policy import Policy
from gateway.settings.yaml_file import Loader
from gateway.store.directory import Actor, Directory

_PAGE = 1000


class Change(NamedTuple):
    """before None: added. after None: removed."""

    before: Policy | None
    after: Policy | None

    @property
    def name(self) -> str:
        return (self.after or self.before or _NOBODY).id


_NOBODY = Policy(id="")


def read(text: str) -> tuple[list[Policy], list[str]]:
    """The policies of a file, `policies:` name to fields, and all that is wrong with it."""
    whole, faults = _parsed(text)
    if faults:
        return [], faults
    if not isinstance(whole, dict) or "policies" not in whole:
        return [], ["expected policies: and under it a name and fields for each."]
    faults = [f"{str(name)[:80]}: is not known here; expected policies alone." for name in whole if name != "policies"]
    named = whole["policies"] if whole["policies"] is not None else {}
    if not isinstance(named, dict):
        return [], [*faults, "policies: expected a name and fields for each."]
    policies = []
    for name, fields in named.items():
        policy, found = _policy(name, fields)
        faults += [f"policies.{str(name)[:80]}: {fault}" for fault in found]
        policies += [policy] if policy else []
    return policies, faults


def read_one(name: str, text: str) -> tuple[Policy | None, list[str]]:
    """The policy whose fields a file holds."""
    fields, faults = _parsed(text)
    return (None, faults) if faults else _policy(name, fields)


async def stored(directory: Directory) -> list[Policy]:
    found: list[Policy] = []
    while page := await directory.page(Policy, found[-1].id if found else "", _PAGE):
        found += page
    return found


def compared(before: Iterable[Policy], wanted: Iterable[Policy], *, prune: bool) -> list[Change]:
    """What makes of the stored policies those of a file. Without `prune` nothing is removed."""
    old, new = {policy.id: policy for policy in before}, {policy.id: policy for policy in wanted}
    changes = [Change(old.get(name), policy) for name, policy in new.items() if _differ(old.get(name), policy)]
    removed = [Change(policy, None) for name, policy in old.items() if prune and name not in new]
    return sorted([*changes, *removed], key=lambda change: change.name)


def lines(change: Change) -> Iterator[str]:
    """A change as people read it: `+` added, `-` removed, `~` changed, with each field's old and new value."""
    before, after = set_fields(change.before), set_fields(change.after)
    yield f"{'~' if change.before and change.after else '+' if change.after else '-'} {change.name}"
    for field in dict.fromkeys((*before, *after)):
        old, new = before.get(field, "(none)"), after.get(field, "(none)")
        if change.before is None:
            yield f"    {field}: {_spoken(new)}"
        elif change.after is None:
            yield f"    {field}: {_spoken(old)}"
        elif old != new:
            yield f"    {field}: {_spoken(old)} -> {_spoken(new)}"


async def apply(directory: Directory, actor: Actor, change: Change) -> None:
    """Raises Conflict where the policy is no longer what the change was made for."""
    now = await directory.get(Policy, change.name)
    if now != change.before:
        raise Conflict(f"Somebody else has just changed the policy {change.name!r}. Look at the difference again.")
    if change.after is None:
        await administration.delete(directory, actor, change.name)
    else:
        await administration.put(directory, actor, change.after)


def set_fields(policy: Policy | None) -> dict[str, Any]:
    """What a policy says, as a file would: nothing that holds anyway."""
    if policy is None:
        return {}
    own: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    said = {"applies_to": list(policy.applies_to)} | own
    return {name: said[name] for name in Policy.__struct_fields__ if name in said and name not in ("id", "created")}


def as_text(policy: Policy) -> str:
    """As `read_one` reads it."""
    text: str = yaml.safe_dump(set_fields(policy), sort_keys=False, allow_unicode=True, width=110)
    return text.rstrip("\n")


def _differ(before: Policy | None, after: Policy) -> bool:
    return before is None or msgspec.structs.replace(after, created=before.created) != before


def _policy(name: Any, fields: Any) -> tuple[Policy | None, list[str]]:
    if not isinstance(name, str):
        return None, ["its name is no text; put it in quotes."]
    if not isinstance(fields, dict) or not all(isinstance(field, str) for field in fields):
        return None, ["expected lines of the form field: value."]
    cost = fields.get("cost_per_month")
    if isinstance(cost, (int, float)) and not isinstance(cost, bool):
        fields = fields | {"cost_per_month": str(cost)}  # a sum of money as people write it, without quotes
    return administration.policy_of(name, fields)


def _parsed(text: str) -> tuple[Any, list[str]]:
    try:
        return yaml.load(text, Loader=Loader), []
    except RecursionError:
        return None, ["is nested too deeply."]
    except yaml.YAMLError as error:
        return None, [f"is not YAML ({' '.join(str(error).split())[:300]})."]


def _spoken(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "(none)"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {amount}" for name, amount in value.items())
    return str(value)
