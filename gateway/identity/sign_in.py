"""A browser's way in: out to the provider, back with a code, into a session. Bound to the browser that began it."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from gateway.errors import NotFound, SignInFailed, TooManyFailures, Unauthenticated
from gateway.identity import local_link
from gateway.identity.browser import SESSION, SIGN_IN, Header, Site, safe_return
from gateway.identity.code_flow import Answer, CodeFlow, Refused, plain
from gateway.identity.oidc import tokens
from gateway.identity.people import People
from gateway.identity.records import LOCAL_ISSUER, user_id
from gateway.identity.refresh import Renewed
from gateway.identity.sessions import Arrival, Session, Sessions, Tokens
from gateway.identity.throttle import Minutes, network_of
from gateway.scope import RequestScope
from gateway.settings import Settings
from gateway.store import keys
from gateway.store.redis import Store

log = logging.getLogger("sekisho.identity")

START = "/chat"  # where people go who wanted nothing else
_SECONDS = 600  # from the click to the way back
# From one address at one worker: a company behind one address comes in the morning, and nobody fills Redis.
_MOST_A_MINUTE = 600
_ADDRESSES = 10_000
_BINDING = re.compile(r"[A-Za-z0-9_-]{43}")
_LONGEST_CODE = 8192
_LONGEST_HINT = 4096


class Onward(NamedTuple):
    """Where the browser goes next, and the cookies that it takes along."""

    location: str
    headers: list[Header]


class _Begun(msgspec.Struct):
    """A sign-in under way, kept under a hash of its state and of the browser's own secret."""

    issuer: str
    nonce: str
    verifier: str
    return_to: str


class SignIn:
    """Raises SignInFailed, Forbidden, TooManyFailures, ProviderAway and StoreAway."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        site: Site,
        sessions: Sessions,
        flows: Mapping[str, CodeFlow],
        people: People,
    ) -> None:
        self._settings = settings
        self._store = store
        self._site = site
        self._sessions = sessions
        self._flows = flows
        self._people = people
        self._begun = Minutes(_MOST_A_MINUTE, _ADDRESSES)

    async def begin(self, request: RequestScope, issuer: str, return_to: str) -> Onward:
        flow = self._flows.get(issuer)
        if flow is None:
            raise NotFound("There is no such identity provider. Choose one on the first page.", code="unknown_issuer")
        self._bound(request)
        # Kept where it is there, so that two tabs can sign in side by side.
        binding = self._site.cookie(request, SIGN_IN) or ""
        if not _BINDING.fullmatch(binding):
            binding = secrets.token_urlsafe(32)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        begun = _Begun(issuer, nonce, verifier, safe_return(return_to))
        location = await flow.address(state, nonce, verifier)
        await self._store.command(
            "SET", keys.sign_in(_digest(state, binding)), msgspec.json.encode(begun), "EX", _SECONDS
        )
        return Onward(location, [self._site.set_cookie(SIGN_IN, binding, _SECONDS)])

    def _bound(self, request: RequestScope) -> None:
        place, now = network_of(request.client).encode(), time.monotonic()
        if left := self._begun.left(place, now):
            error = TooManyFailures("Too many sign-ins were begun from your address. Wait a moment, then try again.")
            error.retry_after = int(left) + 1
            raise error
        self._begun.add(place, now)

    async def finish(self, request: RequestScope, query: Mapping[str, str]) -> Onward:
        """The provider has sent the browser back."""
        begun = await self._taken(request, query.get("state", ""))
        flow = self._flows.get(begun.issuer)
        if flow is None:
            raise _expired()
        await self._check_answer(flow, query)
        try:
            answer = await flow.exchange(query["code"], begun.verifier)
            claims = await self._claims(flow, answer, begun.nonce)
        except Refused as refusal:
            raise _refused(flow, str(refusal)) from None
        except Unauthenticated as fault:
            log.warning("an ID token of %s cannot be trusted: %s", begun.issuer, fault)
            raise _untrusted(fault.message) from None
        user = await self._people.arrive(begun.issuer, claims, "sign-in", request.client)
        arrival = Arrival(
            user=user.id,
            issuer=begun.issuer,
            address=request.client,
            agent=_agent(request),
            tokens=Tokens(_hint(answer.id_token), answer.refresh_token),
            sid=_sid(claims),
            # Without a refresh token there is nobody to ask: the session lives to its own end.
            access_expires=answer.expires if answer.refresh_token else 0,
        )
        return await self._enter(request, arrival, begun.return_to)

    async def by_link(self, request: RequestScope, token: str) -> Onward:
        """The one-time link of the local admin."""
        user_id = await local_link.redeem(self._store, token) if self._settings.signs_in_locally else None
        if user_id is None:
            raise SignInFailed(
                "This link was used already, or is older than ten minutes. Print a new one: ./sekisho sign-in",
                code="link_expired",
            )
        arrival = Arrival(user=user_id, issuer=LOCAL_ISSUER, address=request.client, agent=_agent(request))
        return await self._enter(request, arrival, START)

    async def renew(self, session: Session, held: Tokens) -> Renewed:
        flow = self._flows.get(session.issuer)
        if flow is None or not held.refresh_token:
            raise Refused("nothing_to_renew_with")
        answer = await flow.renew(held.refresh_token)
        kept = Tokens(_hint(answer.id_token) or held.id_token, answer.refresh_token or held.refresh_token)
        return Renewed(kept, answer)

    async def take_over(self, session: Session, answer: Answer) -> None:
        flow = self._flows.get(session.issuer)
        if flow is None or not answer.id_token:
            return
        try:
            claims = await self._claims(flow, answer, None)
        except Unauthenticated as fault:
            raise Refused("untrusted_answer", fault.message) from None
        if user_id(session.issuer, claims["sub"]) != session.user:
            raise Refused("another_person")
        await self._people.arrive(session.issuer, claims, f"session:{session.id}", session.address)

    def believed_seconds(self, issuer: str) -> float:
        flow = self._flows.get(issuer)
        return flow.settings.stale_keys_seconds if flow is not None else 0.0

    async def _enter(self, request: RequestScope, arrival: Arrival, return_to: str) -> Onward:
        """Always a new session: a cookie that somebody else put into this browser opens nothing afterwards."""
        before = self._site.cookie(request, SESSION)
        if before and (former := await self._sessions.find(before)) is not None:
            await self._sessions.end(former.id)
        token, session = await self._sessions.begin(arrival)
        log.info("%s signed in: session %s", session.user, session.id)
        return Onward(return_to, [self._site.set_cookie(SESSION, token, self._settings.session_seconds)])

    async def _taken(self, request: RequestScope, state: str) -> _Begun:
        """Found only by the browser that began, and only once."""
        binding = self._site.cookie(request, SIGN_IN)
        if not binding or not state:
            raise _expired()
        data = await self._store.command("GETDEL", keys.sign_in(_digest(state, binding)))
        if data is None:
            raise _expired()
        return msgspec.json.decode(data, type=_Begun)

    async def _check_answer(self, flow: CodeFlow, query: Mapping[str, str]) -> None:
        """Raises SignInFailed. With several providers one could pass off another's code as its own (RFC 9207)."""
        must_name = (await flow.provider.metadata()).authorization_response_iss_parameter_supported
        if query.get("iss") != flow.provider.issuer and ("iss" in query or must_name):
            raise _untrusted("The answer does not come from the provider that was asked.")
        if "error" in query:
            detail = plain(query["error"], 64)
            if described := plain(query.get("error_description", ""), 300):
                detail += f": {described}"
            raise _refused(flow, detail)
        if not 0 < len(query.get("code", "")) <= _LONGEST_CODE:
            raise _untrusted("The answer holds no code.")

    async def _claims(self, flow: CodeFlow, answer: Answer, nonce: str | None) -> dict[str, Any]:
        """What the ID token says, and what the provider tells only when asked."""
        claims: dict[str, Any] = dict(await tokens.verify_id(flow.provider, answer.id_token, nonce))
        wanted = flow.settings.groups_claim.partition(".")[0]
        if wanted in claims or "_claim_names" in claims or "hasgroups" in claims:
            return claims
        told = await flow.person(answer.access_token)
        # OpenID Connect Core, 5.3.2: of another person it must not be used.
        return told | claims if told.get("sub") == claims["sub"] else claims


def _digest(state: str, binding: str) -> str:
    return hashlib.sha256(f"{binding}\0{state}".encode()).hexdigest()


def _agent(request: RequestScope) -> str:
    return request.headers.get(b"user-agent", b"").decode("latin-1")


def _hint(id_token: str) -> str:
    """Kept for signing out alone, where it goes into an address: too long a one would be cut off there."""
    return id_token if len(id_token) <= _LONGEST_HINT else ""


def _sid(claims: Mapping[str, Any]) -> str:
    sid = claims.get("sid")
    return sid if isinstance(sid, str) else ""


def _expired() -> SignInFailed:
    return SignInFailed(
        "This sign-in was not begun in this browser, took too long, or was used already. Begin again.",
        code="sign_in_expired",
    )


def _refused(flow: CodeFlow, detail: str) -> SignInFailed:
    log.info("%s refused a sign-in: %s", flow.provider.issuer, detail)
    return SignInFailed(f"The identity provider refused: {detail}", code="sign_in_refused", detail=detail)


def _untrusted(detail: str) -> SignInFailed:
    return SignInFailed(
        f"The identity provider's answer cannot be trusted: {detail}", code="sign_in_failed", detail=detail
    )
