"""/admin/v1/whoami: what the gateway makes of a credential, for whoever holds it."""

from __future__ import annotations

from gateway.api.admin.operation import Asked, Operation
from gateway.identity.administration.views import WhoAmI, of_principal, why


async def whoami(asked: Asked) -> WhoAmI:
    """Who you are, what you may do, and why"""
    user = await asked.door.people.known(asked.principal.subject)
    return of_principal(asked.principal, why(user) if user and not asked.principal.acting else ())


OPERATIONS = (Operation("GET", "/admin/v1/whoami", whoami, role="user", endpoint=None),)
