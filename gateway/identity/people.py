"""A person whom a provider vouches for arrives: the user is made, or brought up to date where something changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from gateway.errors import Conflict, Forbidden, NotFound
from gateway.identity.claims import GROUPS_OVERAGE, GroupsOverage, decide, groups_of, text
from gateway.identity.group_book import GroupBook
from gateway.identity.records import Group, User, user_id
from gateway.settings import Issuer
from gateway.store.directory import Actor, Directory
from gateway.store.lookup import Lookup

log = logging.getLogger("sekisho.identity")

# How coarse `last_seen` is: a write for each request would be one too many.
_SEEN_SECONDS = 3600
_DECIDED = ("role", "tenant", "groups", "why", "problem")


class _Said(NamedTuple):
    """What a token says of a person."""

    issued: int
    name: str
    email: str
    groups: tuple[str, ...] | None  # None: nothing
    overage: bool


class _Visit(NamedTuple):
    """One arrival, and what it makes of a user record. Pure."""

    said: _Said
    issuer: Issuer
    known: Mapping[str, Group]
    decides: bool  # for later too, not for this request alone
    via: str
    address: str

    def now(self, user: User) -> User:
        """As it counts for this request."""
        said, told = self.said, self.said.groups or ()
        decision = decide(_groups(user, told), self.issuer, self.known)
        left_out = said.overage and user.set_groups is None
        seen = int(time.time())
        return msgspec.structs.replace(
            user,
            name=said.name or user.name,
            email=said.email or user.email,
            role=decision.role,
            tenant=decision.tenant,
            groups=told,
            why=("the provider left the groups out, so nothing can be decided",) if left_out else decision.why,
            problem=GROUPS_OVERAGE if left_out else "",
            token_issued=max(said.issued, user.token_issued),
            last_seen=seen if seen - user.last_seen >= _SEEN_SECONDS else user.last_seen,
        )

    def kept(self, user: User, now: User | None = None) -> User:
        """The record as it should be from now on; the same one where this is no news."""
        if self.said.issued < user.token_issued:
            return user
        after = self.now(user) if now is None else now
        if not self.decides:
            after = msgspec.structs.replace(after, **{name: getattr(user, name) for name in _DECIDED})
        is_news = msgspec.structs.replace(after, token_issued=user.token_issued) != user
        return after if is_news else user

    def actor(self, user: User) -> Actor:
        return Actor(user.id, user.name, self.via, self.address)


class People:
    """Raises Forbidden, Unauthenticated and StoreAway."""

    def __init__(self, directory: Directory, lookup: Lookup, groups: GroupBook, issuers: Iterable[Issuer]) -> None:
        self._directory = directory
        self._lookup = lookup
        self._groups = groups
        self._issuers = {issuer.issuer: issuer for issuer in issuers}

    async def arrive(self, issuer: str, claims: Mapping[str, Any], via: str, address: str = "") -> User:
        """Somebody signs in, or is vouched for anew. `claims` are verified."""
        settings = self._issuers[issuer]
        visit = _Visit(_said(claims, settings), settings, await self._groups.all(), True, via, address)
        return await self._arrived(str(claims["sub"]), visit)

    async def bearing(self, issuer: str, claims: Mapping[str, Any], address: str = "") -> User:
        """Somebody's program shows a token. What it says counts for this request.

        It is kept only where it is news: a token older than the last, or without the groups claim, decides nothing.
        """
        settings = self._issuers[issuer]
        said = _said(claims, settings)
        decides = said.groups is not None or said.overage
        visit = _Visit(said, settings, await self._groups.all(), decides, "token", address)
        return await self._arrived(str(claims["sub"]), visit)

    async def known(self, record_id: str) -> User | None:
        """A user as group records and what an admin has set decide now, whenever the person signed in."""
        user = await self._lookup.get(User, record_id)
        return None if user is None else await self._decided(user)

    async def all_known(self, ids: Sequence[str]) -> list[User]:
        """Those of these who exist, as `known` tells them."""
        return [await self._decided(user) for user in await self._directory.some(User, ids)]

    async def _decided(self, user: User) -> User:
        issuer = self._issuers.get(user.issuer)
        if issuer is None or user.problem:
            return user
        decision = decide(_groups(user, user.groups), issuer, await self._groups.all())
        return msgspec.structs.replace(user, role=decision.role, tenant=decision.tenant, why=decision.why)

    async def _arrived(self, subject: str, visit: _Visit) -> User:
        user = await self._lookup.get(User, user_id(visit.issuer.issuer, subject))
        if user is None:
            user = await self._first_seen(subject, visit)
        if user.disabled:
            raise Forbidden("Your account here is disabled. Ask an administrator.", code="account_disabled")
        now = visit.now(user)
        if visit.kept(user, now) != user:
            await self._keep(user, visit)
        if now.problem:
            raise GroupsOverage
        return now

    async def _first_seen(self, subject: str, visit: _Visit) -> User:
        """Many requests of one person may come at once; one of them makes the record, the others find it."""
        issuer = visit.issuer.issuer
        draft = User(id=user_id(issuer, subject), issuer=issuer, subject=subject, created=int(time.time()))
        user = visit.now(draft)
        with suppress(Conflict):
            await self._directory.create(visit.actor(user), user)
            _tell(user)
            return user
        return await self._directory.find(User, user.id)

    async def _keep(self, user: User, visit: _Visit) -> None:
        """In the audit trail stands who decides what; that somebody was seen or has another name does not."""
        is_decision = _decision(visit.kept(user)) != _decision(user)
        actor = visit.actor(user) if is_decision else None
        with suppress(Conflict, NotFound):  # somebody else is changing it: what they do goes before this
            changed = await self._directory.change(actor, User, user.id, visit.kept)
            if is_decision:
                _tell(changed)
        self._lookup.forget(User.kind, user.id)


def _said(claims: Mapping[str, Any], issuer: Issuer) -> _Said:
    groups, overage = None, False
    try:
        groups = groups_of(claims, issuer.groups_claim)
    except GroupsOverage:
        overage = True
    name = text(claims, "name", "preferred_username")
    return _Said(int(claims.get("iat", 0)), name, text(claims, "email"), groups, overage)


def _groups(user: User, told: tuple[str, ...]) -> tuple[str, ...]:
    """What an admin has set of a person's groups goes before what the provider says, or cannot say."""
    return told if user.set_groups is None else user.set_groups


def _decision(user: User) -> tuple[Any, ...]:
    return tuple(getattr(user, name) for name in _DECIDED)


def _tell(user: User) -> None:
    log.info("%s of %s: role %s, because %s", user.id, user.issuer, user.set_role or user.role, "; ".join(user.why))
