"""Everything that serves browsers, put together: one site, its sessions, the ways in and out."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.identity.browser import Site
from gateway.identity.code_flow import CodeFlow
from gateway.identity.logout import Logout
from gateway.identity.oidc.provider import Providers
from gateway.identity.people import People
from gateway.identity.records import LOCAL_ISSUER
from gateway.identity.refresh import Refresher
from gateway.identity.session_cookie import SessionCookie
from gateway.identity.sessions import Sessions
from gateway.identity.sign_in import SignIn
from gateway.settings import Settings
from gateway.store.redis import Store


@dataclass(frozen=True, slots=True)
class Browsers:
    site: Site
    flows: dict[str, CodeFlow]  # by issuer; none where no public URL is set, for nobody could come back
    cookie: SessionCookie
    sign_in: SignIn
    logout: Logout
    refresher: Refresher


def browsers(settings: Settings, store: Store, sessions: Sessions, providers: Providers, people: People) -> Browsers:
    site = Site(settings.public_url)
    url = settings.public_url
    flows = {provider.issuer: CodeFlow(provider, providers.http, url) for provider in providers} if url else {}
    sign_in = SignIn(settings, store, site, sessions, flows, people)
    refresher = Refresher(store, sessions, sign_in)
    issuers = {LOCAL_ISSUER} if settings.signs_in_locally else set(flows)
    cookie = SessionCookie(site, sessions, refresher, people, issuers)
    return Browsers(site, flows, cookie, sign_in, Logout(store, site, sessions, flows, providers), refresher)
