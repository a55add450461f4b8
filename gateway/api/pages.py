"""Sending pages: with the headers that keep other sites out of them, and errors as pages where a person looks on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from gateway.api.door import Door
from gateway.api.http import send_bytes
from gateway.api.language import language
from gateway.errors import DoorError, SignInFailed, Unauthenticated
from gateway.identity.browser import Header, is_navigation, wants_page
from gateway.scope import RequestScope
from gateway.web import pages

_URL = "!#$%&'()*+,/:;=?@[]~"

_SELF = "'self'"
_APP_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)

Handler = Callable[[Door, RequestScope], Awaitable[None]]


def page(handler: Handler) -> Handler:
    """The same, with its refusals told on a page to whoever looks at one; programs get the error object as ever."""

    async def shown(door: Door, request: RequestScope) -> None:
        try:
            await handler(door, request)
        except DoorError as error:
            if request.status or not wants_page(request):
                raise
            await send_failure(request, error)

    return shown


async def send_page(request: RequestScope, text: str, *, form_targets: tuple[str, ...] = ()) -> None:
    """`form_targets`: hosts to which a form of this page may lead in the end, beside ours."""
    await send_bytes(request, text.encode(), "text/html; charset=utf-8", headers=_guards(form_targets))


async def send_app(door: Door, request: RequestScope, text: str, *, trusted_types: bool = True) -> None:
    """A page of scripts (gateway/web/app_page.py). trusted_types: the browser lets no script write HTML from text."""
    session = await door.browsers.cookie.session(request)
    # The way out in its header may lead to the provider in the end.
    targets = await door.browsers.logout.origins(session) if session is not None else ()
    policy = f"{_APP_POLICY}; form-action {' '.join((_SELF, *targets))}"
    if trusted_types:
        policy += "; require-trusted-types-for 'script'"
    await send_bytes(request, text.encode(), "text/html; charset=utf-8", headers=_headers(policy))


async def send_onward(request: RequestScope, location: str, headers: list[Header]) -> None:
    # A provider's address is its own to spell; what does not belong into a header is never sent in one.
    always = [(b"location", quote(location, safe=_URL).encode("ascii")), (b"cache-control", b"no-store")]
    await send_bytes(request, b"", "text/plain", 303, [*always, *headers])


async def send_failure(request: RequestScope, error: DoorError) -> None:
    request.outcome = error.code or "error"
    detail = error.detail if isinstance(error, SignInFailed) else ""
    text = pages.failure(language(request), error.code, error.message, detail, request.request_id)
    headers = [*_guards(()), *error.headers()]
    await send_bytes(request, text.encode(), "text/html; charset=utf-8", error.status, headers)


async def send_to_sign_in(request: RequestScope, error: DoorError) -> bool:
    """Whether it could be done: a person who opens a page is asked to sign in, and comes back to it."""
    if not isinstance(error, Unauthenticated) or not is_navigation(request):
        return False
    request.outcome = error.code or "error"
    asked = request.path + ("?" + request.query.decode("latin-1") if request.query else "")
    await send_onward(request, f"/auth/sign-in?return_to={quote(asked, safe='/')}", [])
    return True


def _guards(form_targets: tuple[str, ...]) -> list[Header]:
    targets = " ".join((_SELF, *form_targets))
    return _headers(
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action {targets}"
    )


def _headers(policy: str) -> list[Header]:
    return [
        (b"content-security-policy", policy.encode("ascii")),
        (b"cross-origin-opener-policy", b"same-origin"),
        # Not no-referrer: with that a browser calls the origin of our own forms null.
        (b"referrer-policy", b"same-origin"),
        (b"x-frame-options", b"DENY"),
        (b"cache-control", b"no-store"),
        (b"vary", b"accept-language, cookie"),
    ]
