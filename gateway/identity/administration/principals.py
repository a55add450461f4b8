"""Whom a question is about: a person, a program, a key, or somebody whom a program asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.errors import BadRequest, NotFound
from gateway.identity.administration.forms import WhoQuery
from gateway.identity.administration.office import Office
from gateway.identity.behalf import opaque
from gateway.identity.records import Key, ServiceAccount, User, as_principal
from gateway.scope import Principal

Known = Callable[[str], Awaitable[User | None]]


async def principal_of(office: Office, known: Known, who: WhoQuery) -> Principal:
    """As a request of theirs would have it. Raises BadRequest and NotFound."""
    asker = await _asker(office, known, who)
    if who.user and asker is not None and asker.subject != who.user:
        return await _asked_for(asker, known, who.user)
    if asker is not None:
        return asker
    program, slash, _ = who.user.partition("/")
    if slash:
        account = await office.directory.find(ServiceAccount, program)
        return await _asked_for(as_principal(account), known, who.user)
    if not who.user:
        raise BadRequest("Say whom it is about: user, service_account or key.", param="user")
    return as_principal(await _person(known, who.user))


async def _asker(office: Office, known: Known, who: WhoQuery) -> Principal | None:
    """Whose credential it is, where one is named."""
    if who.key and who.service_account:
        raise BadRequest("Name a key or a service account: a key says whose it is.", param="key")
    if who.service_account:
        return as_principal(await office.directory.find(ServiceAccount, who.service_account))
    if not who.key:
        return None
    key = await office.directory.find(Key, who.key)
    kind, _, owner = key.owner.partition(":")
    if kind == User.kind:
        return as_principal(await _person(known, owner), grant=key.grant(), key_id=key.id)
    return as_principal(await office.directory.find(ServiceAccount, owner), grant=key.grant(), key_id=key.id)


async def _asked_for(asker: Principal, known: Known, user: str) -> Principal:
    if asker.subject.startswith("usr_"):
        raise BadRequest("The key is another person's: only a program asks for somebody else.", param="user")
    program, slash, name = user.partition("/")
    if slash and program != asker.subject:
        raise BadRequest(f"{user[:100]!r} is whom another program has named.", param="user")
    if slash:
        return opaque(asker, name, name)
    person = as_principal(await _person(known, user), grant=asker.grant, key_id=asker.key_id, acting=asker.subject)
    return replace(person, role="user")


async def _person(known: Known, user: str) -> User:
    found = await known(user)
    if found is None:
        raise NotFound(f"There is no user with the id {user[:64]!r}.", param="user")
    return found
