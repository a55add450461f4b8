"""What a provider's claims make of a person: groups, and by them role and tenant, with the reason of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gateway.errors import Forbidden, Unauthenticated
from gateway.identity.records import Group
from gateway.scope import Role
from gateway.settings import Issuer

GROUPS_OVERAGE = "groups_overage"

_MOST_GROUPS = 1000
_LONGEST_GROUP = 256
# A group that makes somebody a service says more than no group does.
_ORDER: tuple[Role, ...] = ("user", "service", "auditor", "admin")


class GroupsOverage(Forbidden):
    """The person is in so many groups that the provider left them out: nobody can say which."""

    code = GROUPS_OVERAGE

    def __init__(self) -> None:
        super().__init__(
            "Your identity provider left your groups out of its token because there are too many of them, so nobody "
            "can say what you may do. An administrator can resolve it: let the provider send application roles and "
            "set groups_claim: roles; or limit its groups claim to the groups assigned to this application; "
            "or set your groups here by hand."
        )


class Decision(NamedTuple):
    role: Role
    tenant: str
    groups: tuple[str, ...]
    why: tuple[str, ...]


def groups_of(claims: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
    """In order of their letters; None where the claim is not there at all. Raises Unauthenticated and Forbidden."""
    found = _at(claims, path)
    if found is None:
        if _is_overage(claims, path):
            raise GroupsOverage
        return None
    # A provider with one group to tell may tell it without a list.
    names = found if isinstance(found, list) else [found]
    if len(names) > _MOST_GROUPS:
        raise Forbidden(
            f"Your token names {len(names)} groups; at most {_MOST_GROUPS} are taken. "
            "Ask an administrator to limit the claim to the groups that this gateway needs.",
            code="too_many_groups",
        )
    if not all(_is_name(name) for name in names):
        raise _malformed(path)
    return tuple(sorted(set(names)))


def decide(groups: Iterable[str], issuer: Issuer, known: Mapping[str, Group]) -> Decision:
    """The highest role that a group gives; the tenant of the first group, in order of letters, that has one."""
    groups = tuple(groups)
    role, role_why = _role(groups, issuer, known)
    tenant, tenant_why = _tenant(groups, issuer, known)
    return Decision(role, tenant, groups, (role_why, tenant_why))


def text(claims: Mapping[str, Any], *names: str) -> str:
    """The first of these claims that is a text, fit to be shown."""
    for name in names:
        value = claims.get(name)
        if isinstance(value, str) and value.strip():
            return "".join(letter for letter in value if letter.isprintable())[:_LONGEST_GROUP]
    return ""


def _role(groups: tuple[str, ...], issuer: Issuer, known: Mapping[str, Group]) -> tuple[Role, str]:
    best: Role = "user"
    why = "no group gives a role, so it is user"
    for name in groups:
        for given, source in _roles_of(name, issuer, known):
            if _ORDER.index(given) > _ORDER.index(best):
                best, why = given, f"the group {name!r} gives the role {given} ({source})"
    return best, why


def _roles_of(name: str, issuer: Issuer, known: Mapping[str, Group]) -> list[tuple[Role, str]]:
    given: list[tuple[Role, str]] = []
    if (by_settings := issuer.group_roles.get(name)) is not None:
        given.append((by_settings, "group_roles in the settings"))
    if (group := known.get(name)) is not None and group.role is not None:
        given.append((group.role, "as an administrator has set it"))
    return given


def _tenant(groups: tuple[str, ...], issuer: Issuer, known: Mapping[str, Group]) -> tuple[str, str]:
    for name in groups:
        if (group := known.get(name)) is not None and group.tenant is not None:
            return group.tenant, f"the group {name!r} belongs to the tenant {group.tenant}"
    return issuer.tenant, f"no group names a tenant, so it is the provider's: {issuer.tenant}"


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Some claims have dots in their name, as in https://example.com/groups; the name goes before the path."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, Mapping):
            raise _malformed(path)
        found = found.get(name)
        if found is None:
            return None
    return found


def _is_overage(claims: Mapping[str, Any], path: str) -> bool:
    """Entra puts a pointer in place of the list (`_claim_names`), or in the implicit flow `hasgroups`."""
    root = path.partition(".")[0]
    pointers = claims.get("_claim_names")
    is_elsewhere = isinstance(pointers, Mapping) and (path in pointers or root in pointers)
    return is_elsewhere or (root == "groups" and claims.get("hasgroups") in (True, "true"))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_GROUP and value.isprintable()


def _malformed(path: str) -> Unauthenticated:
    return Unauthenticated(
        f"The claim {path} of this token is no list of names. An administrator can check groups_claim in the settings.",
        code="invalid_token",
    )
