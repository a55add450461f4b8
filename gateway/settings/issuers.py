"""Who vouches for people: OpenID Connect providers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

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
    client_secret_file: Path | None = Field(None, description="A file that holds the secret.")
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

    @model_validator(mode="before")
    @classmethod
    def _secret_from_its_file(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(file := given.get("client_secret_file"), str | Path):
            return given
        if given.get("client_secret") is not None:
            raise ValueError("expected one of client_secret and client_secret_file")
        return {**given, "client_secret": _content(file)}


def _content(file: str | Path) -> str:
    try:
        found = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"client_secret_file: {str(file)!r} cannot be read") from None
    if not found:
        raise ValueError(f"client_secret_file: {str(file)!r} is empty")
    return found
