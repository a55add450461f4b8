"""Signing in and out with a browser: /, /auth/… and what the pages look like."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

from gateway.api.door import Door
from gateway.api.http import read_body, send_bytes, send_json
from gateway.api.language import language
from gateway.api.pages import page, send_onward, send_page
from gateway.errors import BadRequest, Forbidden, NotFound, Unauthenticated
from gateway.identity.administration.views import why
from gateway.identity.records import User, as_principal
from gateway.identity.sign_in import START, Onward
from gateway.scope import RequestScope
from gateway.web import pages
from gateway.web.pages import Choice, Person, Visit

SIGN_IN = "/auth/sign-in"
_MOST_PARAMETERS = 20
_LONGEST_FORM = 64 * 1024


@page
async def landing(door: Door, request: RequestScope) -> None:
    """Who you are and why, or how to sign in."""
    session = await door.browsers.cookie.session(request)
    if session is None:
        await send_page(request, _choice(door, request, START))
        return
    try:
        user = await door.browsers.cookie.user(session)
    except Unauthenticated:
        await send_page(request, _choice(door, request, START))
        return
    text = pages.landing(language(request), _person(user))
    await send_page(request, text, form_targets=await door.browsers.logout.origins(session))


@page
async def account(door: Door, request: RequestScope) -> None:
    """Where the same person is signed in: a session that is somebody else's would be seen here."""
    here = request.known().session_id
    if not here:
        raise Forbidden("This page is for people who signed in with a browser.", code="browsers_only")
    sessions = await door.sessions.of_user(request.known().subject)
    visits = [Visit(one.agent, one.address, one.created, one.seen, one.id == here) for one in sessions]
    await send_page(request, pages.account(language(request), visits))


@page
async def begin(door: Door, request: RequestScope) -> None:
    query = _query(request)
    return_to = query.get("return_to", START)
    issuer = query.get("issuer")
    if issuer is None and len(door.browsers.flows) == 1:
        issuer = next(iter(door.browsers.flows))
    if issuer is None:
        await send_page(request, _choice(door, request, return_to))
        return
    if not door.browsers.flows:
        raise NotFound(
            "Signing in with a browser needs the settings public_url and issuers.", code="sign_in_not_set_up"
        )
    await _send(request, await door.browsers.sign_in.begin(request, issuer, return_to))


@page
async def callback(door: Door, request: RequestScope) -> None:
    await _send(request, await door.browsers.sign_in.finish(request, _query(request)))


@page
async def local(door: Door, request: RequestScope) -> None:
    """The one-time link."""
    await _send(request, await door.browsers.sign_in.by_link(request, _query(request).get("token", "")))


@page
async def sign_out(door: Door, request: RequestScope) -> None:
    await _send(request, await door.browsers.logout.sign_out(request))


async def back_channel_logout(door: Door, request: RequestScope) -> None:
    """A provider tells that a session of its has ended (OpenID Connect Back-Channel Logout)."""
    body = await read_body(request, _LONGEST_FORM, door.settings.body_timeout)
    try:
        form = _pairs(body.decode("ascii"))
    except UnicodeDecodeError:
        raise BadRequest("Expected a form with a logout_token.", param="logout_token") from None
    if not (token := form.get("logout_token")):
        raise BadRequest("Expected a form with a logout_token.", param="logout_token")
    await door.browsers.logout.told(token)
    await send_bytes(request, b"", headers=[(b"cache-control", b"no-store")])


async def session(door: Door, request: RequestScope) -> None:
    """Who am I, as what, and why."""
    principal = request.known()
    user = await door.people.known(principal.subject)
    shown = {
        "object": "session",
        "id": principal.session_id or None,
        "subject": principal.subject,
        "name": principal.name,
        "role": principal.role,
        "tenant": principal.tenant,
        "groups": principal.groups,
        "why": why(user) if user is not None else (),
    }
    await send_json(request, shown, headers=[(b"cache-control", b"no-store"), (b"vary", b"cookie, authorization")])


async def style(door: Door, request: RequestScope) -> None:
    await send_bytes(
        request, pages.STYLE, "text/css; charset=utf-8", headers=[(b"cache-control", b"public, max-age=300")]
    )


def _choice(door: Door, request: RequestScope, return_to: str) -> str:
    """Links lead to the public URL: only there will the browser have its cookie when it comes back."""
    base = (door.browsers.site.public_url or "") + SIGN_IN
    choices = [
        Choice(
            flow.settings.name or urlsplit(issuer).netloc,
            f"{base}?{urlencode({'issuer': issuer, 'return_to': return_to})}",
        )
        for issuer, flow in door.browsers.flows.items()
    ]
    return pages.choice(language(request), choices, local=door.settings.signs_in_locally)


def _person(user: User) -> Person:
    now = as_principal(user)
    return Person(user.name, user.email, now.role, why(user), now.tenant, now.groups)


async def _send(request: RequestScope, onward: Onward) -> None:
    await send_onward(request, onward.location, onward.headers)


def _query(request: RequestScope) -> dict[str, str]:
    return _pairs(request.query.decode("latin-1"))


def _pairs(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"At most {_MOST_PARAMETERS} parameters are taken.") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadRequest("A parameter stands there twice; two readers could take different ones.")
    return found
