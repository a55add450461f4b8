"""Who somebody is now, for work that goes on while they are away. Nothing is shown: it is known who began it."""

from __future__ import annotations

from gateway.errors import Forbidden, Unauthenticated
from gateway.identity.api_keys import ApiKeys
from gateway.identity.behalf import Behalf
from gateway.identity.claims import GroupsOverage
from gateway.identity.people import People
from gateway.identity.records import as_principal
from gateway.scope import Principal


class Absent:
    """Raises Unauthenticated, Forbidden and StoreAway."""

    def __init__(self, keys: ApiKeys, people: People, behalf: Behalf) -> None:
        self._keys = keys
        self._people = people
        self._behalf = behalf

    async def principal(self, subject: str, name: str, key_id: str, acting: str) -> Principal:
        """As in the Principal that began it, with the rights of today."""
        if not key_id:
            return await self._person(subject)
        holder = await self._keys.holder(key_id, names_others=bool(acting))
        if (acting or subject) != holder.subject:
            raise Unauthenticated(
                "The API key that this was begun with is another's by now.", code="credential_revoked"
            )
        if not acting:
            return holder
        return await self._behalf.again(holder, subject, name)

    async def _person(self, subject: str) -> Principal:
        user = await self._people.known(subject)
        if user is None:
            raise Unauthenticated("Whoever began this is gone.", code="credential_revoked")
        if user.disabled:
            raise Forbidden("The account of whoever began this is disabled.", code="account_disabled")
        if user.problem:
            raise GroupsOverage
        return as_principal(user)
