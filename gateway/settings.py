"""Every setting of the door: type, default, help. Environment (SEKISHO_*) over YAML file over default.

All faults are told at once. Reading is pure: `load` sees only the environment and the file it is given.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from gateway.engine_settings import DATA_CLASS, BackendSettings, Kind, ModelName, check_engine_url
from gateway.scope import QueueClass, Role

ENV_PREFIX = "SEKISHO_"
KEY_PATTERN = r"^sk-skh-[a-z0-9]{1,32}-[A-Za-z0-9_-]{16,128}$"


class SettingsError(Exception):
    """`faults` has one line for each bad setting: its name, the value, what was expected."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _redis_url(value: str) -> str:
    if not value.startswith(("unix://", "redis://", "rediss://")):
        raise ValueError("expected redis://host:port/db, rediss://host:port/db or unix:///path/to/socket")
    return value


def _bootstrap_key(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not re.match(KEY_PATTERN, value.get_secret_value()):
        raise ValueError("expected sk-skh-<id>-<secret>, id of 1-32 a-z 0-9, secret of 16-128 A-Z a-z 0-9 _ -")
    return value


def _issuer_url(value: str) -> str:
    parts = urlsplit(value)
    local = parts.hostname in LOOPBACK_HOSTS
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and local)):
        raise ValueError("expected https://host/path as the provider spells it (http:// on this machine only)")
    return value


def _public_url(value: str | None) -> str | None:
    parts = urlsplit(value or "http://localhost")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("expected https://host or https://host:port, without a path")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        raise ValueError("expected https:// (http:// on this machine only): a session's cookie must not travel openly")
    return value and value.rstrip("/")


def _networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for network in value:
        ip_network(network)  # its ValueError says what is wrong
    return value


def _claim_path(value: str) -> str:
    if not all(value.split(".")):
        raise ValueError("expected a claim, or a path such as realm_access.roles")
    return value


# Signatures only: with HMAC, whoever can check a token can forge one, and `none` is no signature at all.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class Issuer(BaseModel):
    """An OpenID Connect provider whose people may come in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, AfterValidator(_issuer_url)] = Field(description="As it stands in its tokens' `iss`.")
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
    groups_claim: Annotated[str, AfterValidator(_claim_path)] = Field(
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


class Price(BaseModel):
    """What a million tokens of a model cost, in one currency for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Decimal = Field(ge=0, le=1_000_000)
    cached_input: Decimal | None = Field(None, ge=0, le=1_000_000, description="None: as input.")
    output: Decimal = Field(ge=0, le=1_000_000)


class TokenWeights(BaseModel):
    """What a token counts for where service is shared out fairly."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(1.0, ge=0, le=1000)
    cached: float = Field(0.1, ge=0, le=1000, description="Of the input, what the engine remembered.")
    output: float = Field(4.0, ge=0, le=1000)

    def of(self, prompt: float, cached: float, output: float) -> float:
        """`cached` is a part of `prompt`."""
        return (prompt - cached) * self.input + cached * self.cached + output * self.output


# A table that names some classes leaves the others as they are.
_CLASS_WEIGHTS: dict[QueueClass, float] = {"interactive": 8.0, "api": 4.0, "batch": 1.0}
_STARVATION_SECONDS: dict[QueueClass, float] = {"interactive": 10.0, "api": 20.0, "batch": 40.0}
Weight = Annotated[float, Field(gt=0, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
Places = Annotated[int, Field(ge=0, le=1_000_000)]


def _time_zone(value: str) -> str:
    try:
        return value if value == "UTC" else ZoneInfo(value).key
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("expected a time zone such as Asia/Tokyo or UTC") from None


def _is_loopback(host: str) -> bool:
    try:
        return host in LOOPBACK_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False


# Fields that steer an engine are the door's alone to set, and none may choose where a request goes.
_NEVER_ALLOWED = frozenset(
    {"priority", "cache_salt", "request_id", "rid", "kv_transfer_params", "lora_path", "custom_logit_processor",
     "logits_processors", "api_base", "base_url", "api_key"}
)  # fmt: skip


def _allowed_fields(value: frozenset[str]) -> frozenset[str]:
    if refused := value & _NEVER_ALLOWED:
        raise ValueError(f"expected names of harmless fields; {', '.join(sorted(refused))} may not be let through")
    return value


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    data_dir: Path = Field(
        Path("~/.local/share/sekisho").expanduser(),
        description="Folder of what must survive a restart: the key that API keys are hashed with.",
    )
    redis_url: Annotated[str, AfterValidator(_redis_url)] = Field(
        "redis://127.0.0.1:6379/0", description="Redis or Valkey: redis://, rediss:// or unix:///path."
    )
    redis_timeout: float = Field(
        0.5, gt=0, le=30, description="Seconds for any one answer of Redis. Past it no request is admitted: 503."
    )
    redis_away: Literal["refuse", "local_share"] = Field(
        "refuse", description="While Redis is away: admit nobody, or limit / replicas from memory for a while."
    )
    local_share_minutes: float = Field(
        5.0, gt=0, le=1440, description="How long local_share lets in, and believes what it knew of keys and people."
    )
    replicas: int = Field(
        1, ge=1, le=1000, description="Gateways on this Redis: local_share takes one part of so many."
    )
    engine_kind: Kind = Field("native", description="Which adapter speaks to the engine, where there is one.")
    engine_url: Annotated[str, AfterValidator(check_engine_url)] = Field(
        "http://127.0.0.1:8000", description="Where the engine listens: unix:/path, http:// or https://."
    )
    engine_api_key: SecretStr | None = Field(
        None, description="The engine's own key, if it has one. Users never see it."
    )
    backends: tuple[BackendSettings, ...] = Field(
        (),
        description="Engines, where there are several. Read anew when the file changes.",
    )
    aliases: dict[ModelName, ModelName] = Field(
        default_factory=dict, description="Names that people use, to the models that stand for them now. Read anew too."
    )
    overflow_after: float = Field(
        5.0, ge=0, le=3600, description="Who would wait so many seconds goes to the next tier, where that is allowed."
    )
    data_class: Annotated[str, Field(pattern=DATA_CLASS)] = Field(
        "internal", description="Of a request that does not say its own in X-Data-Class."
    )
    bootstrap_key: Annotated[SecretStr | None, AfterValidator(_bootstrap_key)] = Field(
        None, description="An admin API key that exists from the start, for automation."
    )
    key_cache_seconds: float = Field(
        0.5, ge=0, le=0.9, description="How long a looked-up key or user is believed if the news of a change is lost."
    )
    revocation_ends_streams: bool = Field(
        True, description="A key, user or session that is ended takes its answers in flight with it."
    )
    issuers: tuple[Issuer, ...] = Field((), description="OpenID Connect providers whose people may come in.")
    public_url: Annotated[str | None, AfterValidator(_public_url)] = Field(
        None, description="Where browsers reach the gateway, such as https://ai.example.com. Needed for sign-in."
    )
    local_sign_in: bool = Field(
        True, description="Without issuers a one-time link signs the operator in, and only loopback is listened on."
    )
    trusted_proxies: Annotated[tuple[str, ...], AfterValidator(_networks)] = Field(
        (), description="Addresses and networks whose X-Forwarded-For is believed."
    )
    session_idle_seconds: float = Field(8 * 3600.0, ge=60, description="A browser session unused this long ends.")
    session_seconds: float = Field(7 * 86_400.0, ge=60, description="A browser session ends after this, used or not.")
    auth_failures_per_minute: int = Field(
        20, ge=1, description="Different bad credentials from one address in a minute; past it new ones get a 429."
    )
    open_webui_secret: SecretStr | None = Field(
        None,
        min_length=16,
        description="Open WebUI's FORWARD_USER_INFO_HEADER_JWT_SECRET, for keys that may forward its users.",
    )

    max_concurrency: int = Field(
        64, ge=1, le=100_000, description="Requests in the engine at once: its --max-num-seqs."
    )
    max_queue: int = Field(512, ge=0, le=1_000_000, description="Requests waiting for a turn; past it 429.")
    queue_timeout: float = Field(60.0, gt=0, le=3600, description="Seconds a request waits for a turn; past it 503.")
    class_weights: Annotated[dict[QueueClass, Weight], AfterValidator(lambda given: _CLASS_WEIGHTS | given)] = Field(
        _CLASS_WEIGHTS, description="Shares of the service of interactive, api and batch while all of them wait."
    )
    class_max_queue: dict[QueueClass, Places] = Field(
        default_factory=dict, description="max_queue of single classes; they share max_queue all the same."
    )
    class_queue_timeout: dict[QueueClass, Seconds] = Field(
        default_factory=dict, description="queue_timeout of single classes."
    )
    starvation_seconds: Annotated[
        dict[QueueClass, Seconds], AfterValidator(lambda given: _STARVATION_SECONDS | given)
    ] = Field(_STARVATION_SECONDS, description="Whoever waits in a class without any turn for so long goes first.")
    service_half_life: float = Field(
        300.0, ge=1, le=86_400, description="Seconds in which what somebody was served counts half against them."
    )
    token_weights: TokenWeights = Field(
        TokenWeights(input=1.0, cached=0.1, output=4.0),
        description="What a token of input, cached input and output counts for where service is shared out.",
    )
    target_tokens_per_second: float = Field(
        20.0, ge=0, le=1000, description="No more run at once than keep everybody at this speed; 0: max_concurrency."
    )
    lease_seconds: float = Field(
        30.0, ge=1, le=600, description="A turn not renewed for this long is taken back: its holder has died."
    )

    quota_time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        "UTC", description="Time zone of the days and months of quotas, such as Asia/Tokyo."
    )
    prices: dict[str, Price] = Field(
        default_factory=dict, description="Model, or pattern with *, to prices per million tokens, for cost limits."
    )

    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="Largest request body; past it 413.")
    max_header_bytes: int = Field(64 * 1024, ge=1024, description="Largest sum of request headers; past it 431.")
    max_headers: int = Field(100, ge=10, description="Most request headers; past it 431.")
    max_messages: int = Field(2048, ge=1, description="Most messages in one chat request.")
    allowed_fields: Annotated[frozenset[str], AfterValidator(_allowed_fields)] = Field(
        frozenset(), description="Body fields beyond the known ones that are let through to the engine."
    )

    files_dir: Path | None = Field(
        None, description="Folder of people's files, the same for all gateways; otherwise files in the data folder."
    )
    max_file_bytes: int = Field(100 * 1024 * 1024, ge=1024, description="Largest file of a batch; past it 413.")
    max_stored_bytes_per_subject: int = Field(
        1024**3, ge=1024, description="What one person or program may store; past it no more files are taken."
    )
    batch_parallel: int = Field(8, ge=1, le=1000, description="Lines of one batch that are asked at once.")

    body_timeout: float = Field(60.0, gt=0, description="Seconds for a request body to arrive; past it 408.")
    first_token_timeout: float = Field(
        300.0, gt=0, description="Seconds from dispatch to the first token; past it 504."
    )
    stall_timeout: float = Field(120.0, gt=0, description="Seconds between two chunks of an answer; past it 504.")
    client_stall_timeout: float = Field(
        60.0, gt=0, description="Seconds that a client may leave its answer unread; past it the connection is cut."
    )
    max_tries: int = Field(3, ge=1, le=10, description="Backends that a request is sent to at most, one after another.")
    recovery_timeout: float = Field(
        20.0, ge=0, le=600, description="Seconds that an answer which broke off waits for a backend to go on with it."
    )
    total_timeout: float = Field(1800.0, gt=0, description="Seconds for a whole request, queue included; past it 504.")
    keepalive_seconds: float = Field(
        15.0, gt=0, description="Silence on a stream before a comment is sent, so that proxies keep it open."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged, and above.")

    @property
    def engines(self) -> tuple[BackendSettings, ...]:
        """All of them: the one of `engine_*`, where it is named or the only one, before those of `backends`."""
        engines = self.backends
        if not engines or "engine_url" in self.model_fields_set:
            named = {"name": self.engine_kind, "kind": self.engine_kind}
            alone = BackendSettings.model_validate({**named, "url": self.engine_url, "api_key": self.engine_api_key})
            engines = (alone, *engines)
        usual = {"max_concurrency": self.max_concurrency}
        return tuple(one if one.max_concurrency else one.model_copy(update=usual) for one in engines)

    @model_validator(mode="after")
    def _names_are_clear(self) -> Settings:
        for name, times in Counter(engine.name for engine in self.engines).items():
            if times > 1:
                raise ValueError(f"backends: {times} of them are called {name!r}; expected names of their own")
        for alias, model in self.aliases.items():
            if model in self.aliases:
                raise ValueError(f"aliases.{alias}: {model!r} is an alias itself; expected the name of a model")
        return self

    @property
    def signs_in_locally(self) -> bool:
        return self.local_sign_in and not self.issuers

    @model_validator(mode="after")
    def _stays_on_this_machine(self) -> Settings:
        if self.signs_in_locally and not _is_loopback(self.host):
            raise ValueError(
                f"host: {self.host!r} cannot be used: without an identity provider the operator signs in by a link, "
                "which is for this machine alone. Listen on 127.0.0.1, name a provider (issuers), or serve API keys "
                "only (local_sign_in: false)"
            )
        return self


def load(file: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from overrides (the command line) over `environ` over `file` over defaults. Raises SettingsError."""
    values = _from_file(file) if file else {}
    values |= _from_environ(environ or {})
    values |= {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError([_fault(item) for item in error.errors()]) from None


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError([f"{file}: cannot be read ({error.strerror})"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError([f"{file}: is not YAML ({str(error).splitlines()[0]})"]) from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError([f"{file}: expected lines of the form name: value"])
    return values


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    # Names that are not the door's are other parts' (the launcher's, the CLI's): not ours to refuse.
    found = {
        name: environ[ENV_PREFIX + name.upper()]
        for name in Settings.model_fields
        if ENV_PREFIX + name.upper() in environ
    }
    return {name: _parsed(name, value) for name, value in found.items()}


_TABLES = {
    "issuers": "a list of objects",
    "prices": "an object of objects",
    "backends": "a list of objects",
    "aliases": "an object of names",
    "token_weights": "an object of numbers",
} | dict.fromkeys(
    ("class_weights", "class_max_queue", "class_queue_timeout", "starvation_seconds"), "an object of class and number"
)


def _parsed(name: str, value: str) -> Any:
    """A variable holds one string: lists are separated by commas, tables are JSON."""
    if name in ("allowed_fields", "trusted_proxies"):
        return [part.strip() for part in value.split(",") if part.strip()]
    if name in _TABLES:
        try:
            return json.loads(value)
        except ValueError:
            raise SettingsError([f"{name}: expected JSON, {_TABLES[name]} (a settings file is easier)"]) from None
    return value


def _fault(item: Any) -> str:
    name = ".".join(str(part) for part in item["loc"])
    if not name:  # of settings that do not go together, which names them itself
        return str(item["msg"].removeprefix("Value error, "))
    secret = (
        name.startswith(("bootstrap_key", "engine_api_key", "open_webui_secret"))
        or "secret" in name
        or name.endswith("api_key")
    )
    value = "(hidden)" if secret else repr(item["input"])
    if item["type"] == "extra_forbidden":
        return f"{name}: {value} is not a setting; known are {', '.join(sorted(Settings.model_fields))}"
    return f"{name}: {value} cannot be used: {item['msg'].removeprefix('Value error, ')}"
