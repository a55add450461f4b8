"""May this principal do that? Pure: a principal and a wish in, Forbidden or nothing out."""

from __future__ import annotations

from fnmatch import fnmatchcase

from gateway.errors import Forbidden
from gateway.scope import Endpoint, Principal, Role

_RANK: dict[Role, int] = {"user": 0, "service": 0, "auditor": 1, "admin": 2}


def check_route(principal: Principal, endpoint: Endpoint | None, role: Role) -> None:
    """Raises Forbidden. An admin's key that is limited to other endpoints is no admin's key."""
    if _RANK[principal.role] < _RANK[role]:
        raise Forbidden(f"This needs the role of {role}; yours is {principal.role}.")
    limits = principal.grant.endpoints
    if endpoint is not None and limits is not None and endpoint not in limits:
        raise Forbidden(f"Your key is limited to {', '.join(sorted(limits))}; this is {endpoint}.")


def may_use(principal: Principal, model: str) -> bool:
    """Whether the credential's list of models, if it has one, has this one."""
    limits = principal.grant.models
    return limits is None or any(fnmatchcase(model, pattern) for pattern in limits)
