"""Who vouches for people: OpenID Connect providers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from gateway.scope import Role
from gateway.settings.checks import check_claim_path, check_issuer_url

# Signatures only: with HMAC, whoever can check a token can forge one, and `none` is no signature at all.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


class Issuer(BaseModel):
    """An OpenID Connect provider whose people may come in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, AfterValidator(check_issuer_url)] = Field(description="As it stands in its tokens' `iss`.")
    name: str = Field("", description="What people see on the sign-in button; otherwise its host.")
    client_id: str = Field(min_length=1, description="As the provider knows this gateway.")
    client_secret: SecretStr | None = Field(None, description="Needed for sign-in at providers that ask for it.")
    audiences: tuple[str, ...] = Field((), description="`aud` values of bearer tokens beside client_id.")
    authorized_parties: tuple[str, ...] = Field(
        (), description="`azp` values taken; empty: client_id, and any where `aud` is the gateway alone."
    )
    algorithms: tuple[Algorithm, ...] = Field(("RS256", "PS256", "ES256", "EdDSA"), min_length=1)
    scopes: tuple[str, ...] = Field(
        ("openid", "profile", "email"), description="Asked for at sign-in; add offline_access for refresh tokens."
    )
    groups_claim: Annotated[str, AfterValidator(check_claim_path)] = Field(
        "groups", description="Claim of groups or roles: groups, roles, realm_access.roles ..."
    )
    tenant: str = Field("default", description="Of its people, where no group says otherwise.")
    group_roles: dict[str, Role] = Field(
        default_factory=dict, description="Group to role, for the first admins; later groups are set by the admin API."
    )
    leeway_seconds: float = Field(60.0, ge=0, le=300, description="Skew of clocks that is forgiven, both ways.")
    stale_keys_seconds: float = Field(
        3600.0, ge=0, le=86_400, description="How long known keys are believed while the provider is away; then 503."
    )
