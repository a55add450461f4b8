"""The identifier for `Authorization: Bearer <JWT>` of a configured provider."""

from __future__ import annotations

from gateway.errors import Unauthenticated
from gateway.identity import bearer
from gateway.identity.api_keys import PREFIX
from gateway.identity.oidc import tokens
from gateway.identity.oidc.provider import Providers
from gateway.identity.people import People
from gateway.identity.records import as_principal
from gateway.scope import Principal, RequestScope


class JwtBearer:
    """Whatever is no JWT, an opaque access token for one, is not this scheme's."""

    def __init__(self, providers: Providers, people: People) -> None:
        self._providers = providers
        self._people = people

    async def identify(self, request: RequestScope) -> Principal | None:
        """Raises Unauthenticated, Forbidden, ProviderAway and StoreAway."""
        token = bearer.token(request)
        if token is None or token.startswith(PREFIX) or not self._providers:
            return None
        issuer = tokens.unverified_issuer(token)
        if issuer is None:
            return None
        provider = self._providers.get(issuer)
        if provider is None:
            raise Unauthenticated(
                "This token comes from a provider that this gateway does not know. Ask an administrator.",
                code="token_unknown_issuer",
            )
        claims = await tokens.verify_access(provider, token)
        return as_principal(await self._people.bearing(issuer, claims, request.client))
