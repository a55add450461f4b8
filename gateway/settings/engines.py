"""What the operator says of each engine behind the door. Data and its faults: knows no adapter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from backends.base import Options

Kind = Literal["native", "openai", "ollama", "sglang", "vllm", "llamacpp", "fake"]

# What leaves the house has to be let, by whose it is and by what is in it.
EVERYBODY = "*"
DATA_CLASS = r"^[a-z0-9][a-z0-9_-]{0,31}$"
MAX_CONCURRENCY = 100_000


def check_engine_url(value: str) -> str:
    if not value.startswith("unix:") and not (value.startswith(("http://", "https://")) and _has_host(value)):
        raise ValueError("expected http://host:port, https://host or unix:/path/to/socket")
    return value


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool((parts.hostname or "").encode("idna")) and parts.port != 0  # to look at it checks it
    except ValueError:  # a name that no resolver takes is one too
        return False


def _named(value: Any) -> Any:
    """A list of models is a table in which each has its own name."""
    return {str(name): str(name) for name in value} if isinstance(value, list | tuple) else value


def _lifetime(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"-1|\d+|(\d+(ms|s|m|h))+", value):
        raise ValueError("expected a duration such as 30m or 24h, seconds, or -1 for ever")
    return value


ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class BackendSettings(BaseModel):
    """One engine, or a service that stands for one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", description="What logs, metrics and people call it.")
    kind: Kind = Field(description="Which adapter speaks to it.")
    url: Annotated[str, AfterValidator(check_engine_url)] = Field(description="unix:/path, http:// or https://.")
    api_key: SecretStr | None = Field(None, description="Its own key. Users never see it.")
    api_key_file: Path | None = Field(None, description="A file that holds the key.")
    api_key_env: str | None = Field(None, description="The environment variable that holds the key.")
    models: Annotated[dict[ModelName, ModelName] | None, BeforeValidator(_named)] = Field(
        None, description="What people call a model: what this engine calls it. A list, or all, keep their names."
    )
    descriptions: dict[ModelName, Annotated[str, Field(max_length=500)]] = Field(
        default_factory=dict, description="What a model, as people call it, is good for: the chat shows it."
    )
    max_concurrency: int | None = Field(
        None, ge=1, le=MAX_CONCURRENCY, description="Requests in it at once. None: as the setting of all."
    )
    weight: float = Field(1.0, gt=0, le=1000, description="How quick it is beside others; its share follows.")
    tier: int = Field(0, ge=0, le=9, description="A higher one is asked where the lower ones are full or down.")
    external: bool = Field(False, description="What is sent there leaves the house.")
    allow_groups: tuple[str, ...] = Field((), description=f"Whose requests may go out: groups, or {EVERYBODY!r}.")
    allow_data_classes: tuple[str, ...] = Field((), description="What may go out, such as public.")
    tools: bool | None = Field(None, description="It was started with a parser for tool calls.")
    images: bool | None = Field(None, description="Its models read images.")
    priority: bool = Field(False, description="It was started with priority scheduling.")
    num_ctx: int | None = Field(None, ge=256, le=10_000_000, description="Ollama: context of each request, in tokens.")
    keep_alive: Annotated[str | None, AfterValidator(_lifetime)] = Field(
        None, description="Ollama: how long a model stays loaded."
    )

    @model_validator(mode="after")
    def _goes_together(self) -> BackendSettings:
        if sum(given is not None for given in (self.api_key, self.api_key_file, self.api_key_env)) > 1:
            raise ValueError("expected one of api_key, api_key_file and api_key_env")
        if not self.external and (self.allow_groups or self.allow_data_classes):
            raise ValueError("allow_groups and allow_data_classes are for an external engine: set external: true")
        return self

    @property
    def options(self) -> Options:
        return Options(self.tools, self.images, self.priority, self.num_ctx, self.keep_alive)
