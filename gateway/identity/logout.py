"""Ways out: a person signs out here and at the provider, or the provider tells that a session of its has ended."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping

from gateway.errors import BadRequest, ProviderAway, Unauthenticated
from gateway.identity.browser import SESSION, Site
from gateway.identity.code_flow import CodeFlow
from gateway.identity.oidc import tokens
from gateway.identity.oidc.provider import Providers
from gateway.identity.records import user_id
from gateway.identity.sessions import Session, Sessions
from gateway.identity.sign_in import Onward
from gateway.scope import RequestScope
from gateway.store import keys
from gateway.store.redis import Store

log = logging.getLogger("sekisho.identity")

# A logout token without an expiry is refused after this and the leeway; its jti is remembered longer.
_REMEMBER_SECONDS = 3600


class Logout:
    def __init__(
        self, store: Store, site: Site, sessions: Sessions, flows: Mapping[str, CodeFlow], providers: Providers
    ) -> None:
        self._store = store
        self._site = site
        self._sessions = sessions
        self._flows = flows
        self._providers = providers

    async def sign_out(self, request: RequestScope) -> Onward:
        """Here first; then on to the provider, where that can be done. Raises Forbidden for another site's page."""
        self._site.check_origin(request)
        token = self._site.cookie(request, SESSION)
        session = await self._sessions.find(token) if token else None
        location = "/"
        if session is not None:
            await self._sessions.end(session.id)
            location = await self._farewell(session)
        return Onward(location, [self._site.clear_cookie(SESSION)])

    async def origins(self, session: Session) -> tuple[str, ...]:
        """Where that may lead, beside here."""
        flow = self._flows.get(session.issuer)
        origin = await flow.farewell_origin() if flow is not None else None
        return () if origin is None else (origin,)

    async def told(self, token: str) -> int:
        """How many sessions a logout token has ended. Raises BadRequest, ProviderAway and StoreAway."""
        provider = self._providers.get(tokens.unverified_issuer(token) or "")
        if provider is None:
            raise _refused("It comes from no issuer that is known here.")
        try:
            claims = await tokens.verify_logout(provider, token)
        except Unauthenticated as fault:
            raise _refused(fault.message) from None
        used = keys.logout(hashlib.sha256(f"{provider.issuer}\0{claims['jti']}".encode()).hexdigest())
        if await self._store.command("EXISTS", used):
            raise _refused("It was used already.")
        sessions = await self._meant(provider.issuer, claims)
        for session in sessions:
            await self._sessions.end(session.id)
        # Marked last: where Redis went away in between, the provider may tell it again.
        life = max(_REMEMBER_SECONDS, int(claims.get("exp", 0) - time.time()) + _REMEMBER_SECONDS)
        await self._store.command("SET", used, "1", "EX", min(life, 86_400))
        log.info("%s ended %d sessions", provider.issuer, len(sessions))
        return len(sessions)

    async def _meant(self, issuer: str, claims: tokens.LogoutClaims) -> list[Session]:
        """With a sid that session alone, which must be the sub's; without one all of the person's."""
        person = user_id(issuer, claims["sub"]) if "sub" in claims else None
        if "sid" in claims:
            found = await self._sessions.of_sid(issuer, claims["sid"])
            return [session for session in found if person in (None, session.user)]
        return await self._sessions.of_user(person) if person is not None else []

    async def _farewell(self, session: Session) -> str:
        flow = self._flows.get(session.issuer)
        if flow is None:
            return "/"
        try:
            return await flow.farewell(self._sessions.tokens(session).id_token) or "/"
        except ProviderAway:
            return "/"


def _refused(why: str) -> BadRequest:
    return BadRequest(f"This logout token cannot be used. {why}", param="logout_token", code="invalid_logout_token")
