"""The identifier for browsers: a session's cookie. Another site's page cannot act by it."""

from __future__ import annotations

from collections.abc import Collection

from gateway.errors import Forbidden, Unauthenticated
from gateway.identity.browser import SESSION, Site
from gateway.identity.people import People
from gateway.identity.records import User, as_principal
from gateway.identity.refresh import Refresher
from gateway.identity.sessions import Session, Sessions
from gateway.scope import Principal, RequestScope


class SessionCookie:
    """`issuers`: whose people may be signed in; a session of another ends, its provider having left the settings."""

    def __init__(
        self, site: Site, sessions: Sessions, refresher: Refresher, people: People, issuers: Collection[str]
    ) -> None:
        self._site = site
        self._sessions = sessions
        self._refresher = refresher
        self._people = people
        self._issuers = issuers

    async def identify(self, request: RequestScope) -> Principal | None:
        if self._site.cookie(request, SESSION) is None:
            return None
        self._site.check_origin(request)
        session = await self.session(request)
        if session is None:
            raise Unauthenticated("Your session has ended. Sign in again.", code="session_ended")
        return as_principal(await self.user(session), session_id=session.id)

    async def session(self, request: RequestScope) -> Session | None:
        """The living session of this browser, noted as used."""
        token = self._site.cookie(request, SESSION)
        found = await self._sessions.find(token) if token else None
        if found is None:
            return None
        if found.issuer not in self._issuers:
            await self._sessions.end(found.id)
            return None
        fresh = await self._refresher.fresh(found)
        return None if fresh is None else await self._sessions.used(fresh, request.client)

    async def user(self, session: Session) -> User:
        """Raises Unauthenticated where there is none any more, Forbidden where an admin has disabled them."""
        user = await self._people.known(session.user)
        if user is None or user.disabled:
            await self._sessions.end(session.id)
        if user is None:
            raise Unauthenticated("Your session has ended. Sign in again.", code="session_ended")
        if user.disabled:
            raise Forbidden("Your account is disabled. Ask an administrator.", code="account_disabled")
        return user
