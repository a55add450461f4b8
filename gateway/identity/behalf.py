"""For whom a program asks: `X-On-Behalf-Of`, or the body's `user`, where its key may say so.

A person whom the door knows is named by id, or by issuer and subject; any other name is the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from gateway.errors import BadRequest, Forbidden
from gateway.identity.records import User, as_principal, user_id
from gateway.scope import Principal, RequestScope
from gateway.store.lookup import Lookup

HEADER = b"x-on-behalf-of"
LONGEST_NAME = 256
_USER_ID = re.compile(r"usr_[a-z2-7]{24}", re.ASCII)


class Behalf:
    """`issuers`: whose people may be named before their first sign-in."""

    def __init__(self, lookup: Lookup, issuers: Iterable[str] = ()) -> None:
        self._lookup = lookup
        self._issuers = frozenset(issuers)

    async def in_header(self, request: RequestScope, principal: Principal) -> Principal:
        """Raises Forbidden where the key may not name people, BadRequest where the name cannot be one."""
        if (value := request.headers.get(HEADER)) is None:
            return principal
        if not principal.grant.on_behalf_of:
            raise Forbidden(
                "Your key may not name whom it asks for: leave X-On-Behalf-Of out, or ask an administrator for a key "
                "with the scope on_behalf_of.",
                code="on_behalf_of_not_allowed",
            )
        if principal.acting:
            raise BadRequest("The request names its user twice: send X-On-Behalf-Of or X-OpenWebUI-User-Jwt.")
        if HEADER in request.repeated:
            raise BadRequest("There are several X-On-Behalf-Of headers. Send one.", param="X-On-Behalf-Of")
        return await self._named(principal, _text(value), "X-On-Behalf-Of")

    async def in_body(self, principal: Principal, user: str | None) -> Principal:
        """Without the scope `user` is what the official API says: a label that means nothing here."""
        if not user or not principal.grant.on_behalf_of or principal.acting:
            return principal
        return await self._named(principal, user, "user")

    async def again(self, service: Principal, subject: str, name: str) -> Principal:
        """Somebody whom the program named before. Raises Forbidden where they are disabled by now."""
        if (found := await self._lookup.get(User, subject)) is not None:
            return _as_person(service, found)
        return replace(opaque(service, name, name), subject=subject)

    async def _named(self, service: Principal, name: str, param: str) -> Principal:
        name = name.strip()
        if not is_name(name):
            raise BadRequest(
                f"{param} names nobody: expected 1 to {LONGEST_NAME} printable characters.",
                param=param,
                code="invalid_user_name",
            )
        if (person := await self._person(service, name, param)) is not None:
            return person
        return opaque(service, name, name)

    async def _person(self, service: Principal, name: str, param: str) -> Principal | None:
        if _USER_ID.fullmatch(name):
            found = await self._lookup.get(User, name)
            if found is None:
                raise Forbidden(f"{param} names a user who does not exist: {name}.", code="unknown_user")
            return _as_person(service, found)
        issuer, bar, subject = name.partition("|")
        if not bar or not subject:
            return None
        found = await self._lookup.get(User, user_id(issuer, subject))
        if found is not None:
            return _as_person(service, found)
        # Booked where they find it when they sign in for the first time.
        return (
            replace(opaque(service, name, name), subject=user_id(issuer, subject)) if issuer in self._issuers else None
        )


def opaque(service: Principal, name: str, shown: str) -> Principal:
    """Somebody whom only the service knows. Neither its role nor its groups go over to them."""
    return replace(
        service, subject=f"{service.subject}/{name}", name=shown, role="user", groups=(), acting=service.subject
    )


def is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def _as_person(service: Principal, user: User) -> Principal:
    if user.disabled:
        raise Forbidden("The account of the user whom you ask for is disabled.", code="account_disabled")
    found = as_principal(user, grant=service.grant, key_id=service.key_id, acting=service.subject)
    return replace(found, role="user")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""
