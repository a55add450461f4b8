"""Every setting of the door: type, default, help. What does not go together is found here too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from backends.telemetry.otlp import check_endpoint
from gateway.scope import QueueClass
from gateway.settings.checks import (
    check_allowed_fields,
    check_bootstrap_key,
    check_networks,
    check_public_url,
    check_redis_url,
    check_time_zone,
    is_loopback,
)
from gateway.settings.engines import DATA_CLASS, BackendSettings, Kind, ModelName, check_engine_url
from gateway.settings.issuers import Issuer
from gateway.settings.redis_url import RedisAt, parse
from gateway.settings.shares import CLASS_WEIGHTS, STARVATION_SECONDS, Places, Price, Seconds, TokenWeights, Weight

Source = Literal["default", "file", "environment", "flag"]


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port that shows /metrics without a key; none unless given, 0 takes any."
    )
    metrics_host: str = Field("127.0.0.1", description="Address of metrics_port: one that only a Prometheus reaches.")
    data_dir: Path = Field(
        Path("~/.local/share/sekisho").expanduser(),
        description="Folder of what must survive a restart: the key that API keys are hashed with.",
    )
    redis_url: Annotated[str, AfterValidator(check_redis_url)] = Field(
        "redis://127.0.0.1:6379/0",
        description="Redis or Valkey: redis://, rediss:// or unix:///path; redis+sentinel://a:26379,b:26379/name or "
        "redis+cluster://a:6379,b:6379.",
    )
    redis_password: SecretStr | None = Field(None, description="Its password, where redis_url does not say it.")
    redis_sentinel_password: SecretStr | None = Field(None, description="The Sentinels' own password.")
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
    bootstrap_key: Annotated[SecretStr | None, AfterValidator(check_bootstrap_key)] = Field(
        None, description="An admin API key that exists from the start, for automation."
    )
    key_cache_seconds: float = Field(
        0.5, ge=0, le=0.9, description="How long a looked-up key or user is believed if the news of a change is lost."
    )
    revocation_ends_streams: bool = Field(
        True, description="A key, user or session that is ended takes its answers in flight with it."
    )
    issuers: tuple[Issuer, ...] = Field((), description="OpenID Connect providers whose people may come in.")
    public_url: Annotated[str | None, AfterValidator(check_public_url)] = Field(
        None, description="Where browsers reach the gateway, such as https://ai.example.com. Needed for sign-in."
    )
    local_sign_in: bool = Field(
        True, description="Without issuers a one-time link signs the operator in, and only loopback is listened on."
    )
    trusted_proxies: Annotated[tuple[str, ...], AfterValidator(check_networks)] = Field(
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
    class_weights: Annotated[dict[QueueClass, Weight], AfterValidator(lambda given: CLASS_WEIGHTS | given)] = Field(
        CLASS_WEIGHTS, description="Shares of the service of interactive, api and batch while all of them wait."
    )
    class_max_queue: dict[QueueClass, Places] = Field(
        default_factory=dict, description="max_queue of single classes; they share max_queue all the same."
    )
    class_queue_timeout: dict[QueueClass, Seconds] = Field(
        default_factory=dict, description="queue_timeout of single classes."
    )
    starvation_seconds: Annotated[
        dict[QueueClass, Seconds], AfterValidator(lambda given: STARVATION_SECONDS | given)
    ] = Field(STARVATION_SECONDS, description="Whoever waits in a class without any turn for so long goes first.")
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
    target_ttft_seconds: float = Field(
        2.0, gt=0, le=600, description="Goodput counts answers whose first token came within this, queue included."
    )
    lease_seconds: float = Field(
        30.0, ge=1, le=600, description="A turn not renewed for this long is taken back: its holder has died."
    )

    quota_time_zone: Annotated[str, AfterValidator(check_time_zone)] = Field(
        "UTC", description="Time zone of the days and months of quotas, such as Asia/Tokyo."
    )
    prices: dict[str, Price] = Field(
        default_factory=dict, description="Model, or pattern with *, to prices per million tokens, for cost limits."
    )

    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1024, description="Largest request body; past it 413.")
    max_header_bytes: int = Field(64 * 1024, ge=1024, description="Largest sum of request headers; past it 431.")
    max_headers: int = Field(100, ge=10, description="Most request headers; past it 431.")
    max_messages: int = Field(2048, ge=1, description="Most messages in one chat request.")
    allowed_fields: Annotated[frozenset[str], AfterValidator(check_allowed_fields)] = Field(
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

    chat_storage: Literal["server", "browser"] = Field(
        "server", description="Where the chat's conversations are kept; browser: the gateway keeps none."
    )
    chat_notice: str = Field(
        "", max_length=1000, description="What the chat shows everybody above its field: house rules, a maintenance."
    )
    chat_retention_days: float = Field(
        90.0, gt=0, le=3650, description="A conversation that is not used for so long is forgotten."
    )
    chat_unread_minutes: float = Field(
        10.0, gt=0, le=1440, description="An answer of the chat goes on for so long while nobody reads it."
    )
    chat_max_conversations: int = Field(500, ge=1, le=10_000, description="Conversations of one person.")
    chat_max_messages: int = Field(
        1000, ge=2, le=10_000, description="Messages of one conversation, branches included."
    )
    chat_max_conversation_bytes: int = Field(
        2 * 1024 * 1024, ge=4096, le=64 * 1024 * 1024, description="Messages of one conversation, as they are kept."
    )
    chat_max_person_bytes: int = Field(
        128 * 1024 * 1024, ge=4096, le=16 * 1024**3, description="All conversations of one person, as they are kept."
    )
    chat_max_message_bytes: int = Field(
        256 * 1024, ge=1024, le=16 * 1024 * 1024, description="One message that somebody writes, files included."
    )

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
    drain_delay_seconds: float = Field(
        0.0, ge=0, le=600, description="Told to stop, requests are still taken for so long, with /readyz at 503."
    )
    drain_seconds: int = Field(
        8, ge=1, le=3600, description="Seconds that answers under way get to end in when the gateway is told to stop."
    )
    keepalive_seconds: float = Field(
        15.0, gt=0, description="Silence on a stream before a comment is sent, so that proxies keep it open."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged, and above.")
    otlp_endpoint: Annotated[str | None, AfterValidator(check_endpoint)] = Field(
        None,
        description="Collector that takes OTLP over HTTP, such as http://127.0.0.1:4318. None: no traces.",
    )
    trace_sample_ratio: float = Field(1.0, ge=0, le=1, description="Part of the traces beginning here that is kept.")
    trace_context_from: Annotated[tuple[str, ...], AfterValidator(check_networks)] = Field(
        (), description="Addresses and networks whose traceparent is believed: their traces go on here."
    )
    record_prompts_of: tuple[str, ...] = Field(
        (), description="Tenants whose prompts and answers are written into log and traces; nobody's unless named."
    )

    # Of those that were given.
    _sources: dict[str, Source] = PrivateAttr(default_factory=dict)

    def source(self, name: str) -> Source:
        """Where the setting's value comes from."""
        return self._sources.get(name, "default")

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

    @property
    def redis(self) -> RedisAt:
        """Where Redis is, and how it lets one in. Raises ValueError."""
        given = (self.redis_password, self.redis_sentinel_password)
        password, of_sentinels = (one.get_secret_value() if one else None for one in given)
        return parse(self.redis_url, password, of_sentinels)

    @model_validator(mode="after")
    def _redis_is_clear(self) -> Settings:
        if self.redis.kind != "sentinel" and self.redis_sentinel_password:
            raise ValueError("redis_sentinel_password: expected only where redis_url is redis+sentinel://")
        return self

    @model_validator(mode="after")
    def _names_are_clear(self) -> Settings:
        for name, times in Counter(engine.name for engine in self.engines).items():
            if times > 1:
                raise ValueError(f"backends: {times} of them are called {name!r}; expected names of their own")
        for alias, model in self.aliases.items():
            if model in self.aliases:
                raise ValueError(f"aliases.{alias}: {model!r} is an alias itself; expected the name of a model")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> Settings:
        if self.metrics_port and self.metrics_port == self.port:
            raise ValueError(f"metrics_port: {self.metrics_port} is the port of the door; expected another")
        return self

    @property
    def signs_in_locally(self) -> bool:
        return self.local_sign_in and not self.issuers

    @model_validator(mode="after")
    def _stays_on_this_machine(self) -> Settings:
        if self.signs_in_locally and not is_loopback(self.host):
            raise ValueError(
                f"host: {self.host!r} cannot be used: without an identity provider the operator signs in by a link, "
                "which is for this machine alone. Listen on 127.0.0.1, name a provider (issuers), or serve API keys "
                "only (local_sign_in: false)"
            )
        return self
