"""The pages as text: the landing page, the choice of how to sign in, an error. Everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import NamedTuple

from gateway.web.assets import assets
from gateway.web.told import told
from gateway.web.words import WORDS, Language, said

STYLE = (Path(__file__).parent / "style.css").read_bytes()


class Choice(NamedTuple):
    """One way to sign in."""

    name: str
    url: str


class Person(NamedTuple):
    """Who is signed in, and as what."""

    name: str
    email: str
    role: str
    why: Sequence[str]
    tenant: str
    groups: Sequence[str]


class Visit(NamedTuple):
    """One of a person's sessions."""

    agent: str
    address: str
    begun: int  # Unix seconds
    seen: int
    here: bool  # it is this browser's


def landing(language: Language, person: Person) -> str:
    groups = ", ".join(escape(group) for group in person.groups) or said("none", language)
    paths = {"usage": "/usage", "planner": "/plan", "console": "/console", "where": "/account"}
    may = [word for word in paths if word != "console" or person.role in ("auditor", "admin")]
    links = "".join(f'<li><a href="{paths[word]}">{said(word, language)}</a></li>' for word in may)
    email = f'<p class="soft">{escape(person.email)}</p>' if person.email else ""
    body = (
        f"<h1>{_said('signed_in_as', language, name=person.name or person.email or '?')}</h1>{email}<dl>"
        f"<dt>{said('role', language)}</dt><dd>{said(f'role_{person.role}', language)}</dd>"
        f"<dt>{said('why', language)}</dt><dd>{_why(person.why, language)}</dd>"
        f"<dt>{said('tenant', language)}</dt><dd>{escape(person.tenant)}</dd>"
        f"<dt>{said('groups', language)}</dt><dd>{groups}</dd></dl>"
        f'{_link(said("chat", language), "/chat")}<ul class="links">{links}</ul>'
        '<form method="post" action="/auth/sign-out">'
        f'<button class="button quiet">{said("sign_out", language)}</button></form>'
    )
    return _page(language, said("tagline", language), body)


def account(language: Language, visits: Sequence[Visit]) -> str:
    title = said("where", language)
    items = "".join(f"<li>{_visit(language, visit)}</li>" for visit in visits)
    return _page(
        language, title, f'<h1>{title}</h1><ul class="visits">{items}</ul>{_link(said("back", language), "/")}'
    )


def choice(language: Language, choices: Sequence[Choice], *, local: bool) -> str:
    title = said("sign_in", language)
    if choices:
        words = said("choose", language)
        links = "".join(_link(said("sign_in_with", language, name=one.name), one.url) for one in choices)
    elif local:
        words, links = said("local_only", language), "<p><code>./sekisho sign-in</code></p>"
    else:
        words, links = said("no_sign_in", language), ""
    return _page(language, title, f"<h1>{title}</h1><p>{words}</p>{links}")


def failure(language: Language, code: str | None, message: str, detail: str, request_id: str) -> str:
    """`detail`: a foreign word for it, such as the provider's."""
    known = f"error_{code}" in WORDS
    words = said(f"error_{code}", language) if known else message
    title = said("failed", language)
    body = (
        f"<h1>{title}</h1><p>{escape(words)}</p>"
        + (f'<p class="soft"><code>{escape(detail)}</code></p>' if detail else "")
        + f'<p class="soft">{said("request_id", language)}: <code>{escape(request_id)}</code></p>'
        + _link(said("again", language), "/")
    )
    return _page(language, title, body)


def _visit(language: Language, visit: Visit) -> str:
    agent = escape(visit.agent) or said("unknown_browser", language)
    here = f" <strong>({said('this_browser', language)})</strong>" if visit.here else ""
    times = said("since", language, begun=_time(visit.begun), seen=_time(visit.seen))
    return f'{agent}{here}<br><span class="soft">{escape(visit.address)} · {times}</span>'


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _why(why: Sequence[str], language: Language) -> str:
    items = "".join(f"<li>{escape(told(reason, language))}</li>" for reason in why)
    return f"<ul>{items}</ul>" if why else said("none", language)


def _link(text: str, url: str) -> str:
    return f'<a class="button" href="{escape(url)}">{escape(text)}</a>'


def _said(word: str, language: Language, **values: str) -> str:
    return escape(said(word, language, **values))


def _page(language: Language, title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · Sekisho</title><link rel="icon" href="{assets().url("icon.svg")}">'
        '<link rel="stylesheet" href="/web/style.css"></head>'
        f"<body><main><header><strong>Sekisho 関所</strong><span>{said('tagline', language)}</span></header>"
        f"{body}</main></body></html>"
    )
