"""What an admin may send, each field with its bounds. The admin API and the command line read by these alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from ipaddress import ip_network
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.errors import BadRequest
from gateway.identity.api_keys import DEFAULT_ENDPOINTS
from gateway.identity.records import DEFAULT_TENANT
from gateway.scope import Endpoint, QueueClass, Role
from gateway.settings.engines import MAX_CONCURRENCY, Kind

# No control characters, no line breaks, nothing that reverses the direction of writing: these are shown in tables.
# `$` alone would let one last line break through.
_PRINTABLE = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]*$(?!\n)"
# Of the letters that a header may hold: it is part of the salt that an engine gets.
_TENANT = r"^[A-Za-z0-9_.-]+$(?!\n)"

Text = Annotated[str, Meta(max_length=1000, pattern=_PRINTABLE)]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PRINTABLE)]
GroupName = Annotated[str, Meta(min_length=1, max_length=256, pattern=_PRINTABLE)]
Groups = Annotated[tuple[GroupName, ...], Meta(max_length=1000)]
Tenant = Annotated[str, Meta(min_length=1, max_length=64, pattern=_TENANT)]
AccountId = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_.-]*$(?!\n)")]
Owner = Annotated[str, Meta(max_length=100, pattern=r"^(user|service_account):[a-z0-9_.-]+$(?!\n)")]
Models = Annotated[tuple[Name, ...], Meta(max_length=1000)]
Endpoints = Annotated[tuple[Endpoint, ...], Meta(max_length=10)]
Networks = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=1000)]
# Of an engine beside others.
Weight = Annotated[float, Meta(gt=0, le=1000)]
# Unix seconds, to the end of the year 9999.
Time = Annotated[int, Meta(ge=1, le=253_402_300_799)]
Limit = Annotated[int, Meta(ge=1, le=1000, description="How many at most in one answer.")]
After = Annotated[str, Meta(max_length=256, description="`next` of the answer before this one.")]


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left out of a change stays as it is; null takes a limit or a setting away."""

    @classmethod
    def of_json(cls, data: bytes) -> Self:
        """Raises BadRequest."""
        return read_json(data, cls)

    def given(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not UNSET}


AnyForm = TypeVar("AnyForm", bound=Form)


class UserNew(Form, frozen=True, kw_only=True):
    issuer: Annotated[str, Meta(min_length=1, max_length=2048, pattern=_PRINTABLE)]
    subject: Annotated[str, Meta(min_length=1, max_length=255, pattern=_PRINTABLE)]
    name: Annotated[str, Meta(max_length=200, pattern=_PRINTABLE)] = ""
    email: Annotated[str, Meta(max_length=320, pattern=_PRINTABLE)] = ""
    set_role: Role | None = None
    set_tenant: Tenant | None = None
    set_groups: Groups | None = None


class UserChange(Form, frozen=True, kw_only=True):
    name: Name | UnsetType = UNSET
    set_role: Role | UnsetType | None = UNSET
    set_tenant: Tenant | UnsetType | None = UNSET
    set_groups: Groups | UnsetType | None = UNSET
    disabled: bool | UnsetType = UNSET


class GroupPut(Form, frozen=True, kw_only=True):
    description: Text = ""
    role: Role | None = None
    tenant: Tenant | None = None


class ServiceAccountNew(Form, frozen=True, kw_only=True):
    id: AccountId | None = None  # None: made of the name
    name: Name
    description: Text = ""
    role: Role = "service"
    tenant: Tenant = DEFAULT_TENANT
    groups: Groups = ()


class ServiceAccountChange(Form, frozen=True, kw_only=True):
    name: Name | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    tenant: Tenant | UnsetType = UNSET
    groups: Groups | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class KeyNew(Form, frozen=True, kw_only=True):
    owner: Owner
    name: Name
    models: Models | None = None  # None: every model
    endpoints: Endpoints | None = DEFAULT_ENDPOINTS  # None: all that the owner may do
    on_behalf_of: bool = False
    forwards_users: bool = False
    queue_class: QueueClass | None = None  # None: api, or interactive where it forwards users
    allowed_ips: Networks = ()
    expires: Time | None = None


class KeyChange(Form, frozen=True, kw_only=True):
    name: Name | UnsetType = UNSET
    models: Models | UnsetType | None = UNSET
    endpoints: Endpoints | UnsetType | None = UNSET
    on_behalf_of: bool | UnsetType = UNSET
    forwards_users: bool | UnsetType = UNSET
    queue_class: QueueClass | UnsetType | None = UNSET
    allowed_ips: Networks | UnsetType = UNSET
    expires: Time | UnsetType | None = UNSET


class Rotation(Form, frozen=True, kw_only=True):
    """0 for a secret that got into wrong hands."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=30 * 86_400)] = 3600


class BackendChange(Form, frozen=True, kw_only=True):
    use: Literal["enabled", "drained", "disabled"] | UnsetType = UNSET
    weight: Weight | UnsetType | None = UNSET


class BackendNew(Form, frozen=True, kw_only=True):
    """As an engine of the settings file. A key is given here, never read from a file or a variable of the gateway's."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$(?!\n)")]
    kind: Kind
    # Not a Unix socket: the gateway may reach ones that are no engine's.
    url: Annotated[str, Meta(max_length=2048, pattern=r"^https?://[!-~]+$(?!\n)")]
    api_key: Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[!-~]+$(?!\n)")] | UnsetType = UNSET
    models: Annotated[dict[Name, Name], Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    max_concurrency: Annotated[int, Meta(ge=1, le=MAX_CONCURRENCY)] | UnsetType = UNSET
    weight: Weight | UnsetType = UNSET
    tier: Annotated[int, Meta(ge=0, le=9)] | UnsetType = UNSET
    external: bool | UnsetType = UNSET
    allow_groups: Groups | UnsetType = UNSET
    allow_data_classes: Annotated[tuple[Name, ...], Meta(max_length=100)] | UnsetType = UNSET
    tools: bool | UnsetType = UNSET
    images: bool | UnsetType = UNSET
    priority: bool | UnsetType = UNSET


class AliasPut(Form, frozen=True, kw_only=True):
    model: Name


class Paging(Form, frozen=True, kw_only=True):
    after: After = ""
    limit: Limit = 100


class UserQuery(Paging, frozen=True, kw_only=True):
    search: Annotated[str, Meta(max_length=200, description="Part of a name, e-mail address or subject.")] = ""
    state: Annotated[Literal["enabled", "disabled"], Meta(description="Those alone.")] | None = None


class KeyQuery(Paging, frozen=True, kw_only=True):
    owner: Annotated[str, Meta(max_length=100, description="user:ID or service_account:ID.")] = ""
    state: Annotated[Literal["good", "expired"], Meta(description="Those alone; a revoked key is gone.")] | None = None


class TrailQuery(Form, frozen=True, kw_only=True):
    before: Annotated[
        str,
        Meta(pattern=r"^([0-9]{1,15}-[0-9]{1,15})?$(?!\n)", description="`next` of the answer before this one."),
    ] = ""
    limit: Limit = 100
    action: Annotated[str, Meta(max_length=100, description="Such as key.create.")] = ""
    target: Annotated[str, Meta(max_length=300, description="Such as key:ID.")] = ""
    actor: Annotated[str, Meta(max_length=300, description="The subject of whoever did it.")] = ""


class WhoQuery(Form, frozen=True, kw_only=True):
    user: Annotated[
        str, Meta(max_length=400, description="A user's id, or SERVICE_ACCOUNT/NAME as usage shows it.")
    ] = ""
    service_account: Annotated[str, Meta(max_length=64, description="Its id; with user: it asks for that person.")] = ""
    key: Annotated[str, Meta(max_length=64, description="Its id; with user: its program asks for that person.")] = ""


class EffectiveQuery(WhoQuery, frozen=True, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=300, description="As requests name it.")]


class QueueQuery(Form, frozen=True, kw_only=True):
    subject: Annotated[str, Meta(max_length=400, description="Of one alone, as usage shows it.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many at most, running and waiting each.")] = 100


class ActivityQuery(Form, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many people and programs at most.")] = 100


class QueueChange(Form, frozen=True, kw_only=True):
    klass: QueueClass = msgspec.field(name="class")


class UsageQuery(Form, frozen=True, kw_only=True):
    """Days are those of UTC."""

    first: Annotated[date, Meta(description="The first day; otherwise that of the month.")] | None = msgspec.field(
        default=None, name="from"
    )
    last: Annotated[date, Meta(description="The last day; otherwise today.")] | None = msgspec.field(
        default=None, name="to"
    )
    by: Literal["user", "service_account", "group", "model", "key", "day"] = "user"
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many rows; the rest is summed up.")] = 1000
    format: Literal["json", "csv"] | None = None


class WhatIfQuery(Form, frozen=True, kw_only=True):
    """Days are those of UTC."""

    first: Annotated[date, Meta(description="The first day; otherwise the seventh to the last.")] | None = (
        msgspec.field(default=None, name="from")
    )
    last: Annotated[date, Meta(description="The last day; otherwise today.")] | None = msgspec.field(
        default=None, name="to"
    )
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many rows at most.")] = 1000


class WhatIf(WhatIfQuery, frozen=True, kw_only=True):
    """The policy's fields as they came: all that is wrong with them is told at once, not the first alone."""

    name: Annotated[str, Meta(max_length=64, description="What the policy is, or would be, called.")] = "proposed"
    policy: dict[str, Any]


def read_json(data: bytes, kind: type[AnyForm]) -> AnyForm:
    """No bytes are an empty object. Raises BadRequest that names the field."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise _explained(error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"The request body is not valid JSON: {error}.", code="invalid_json") from None


def read_fields(fields: Mapping[str, object], kind: type[AnyForm], *, strict: bool = True) -> AnyForm:
    """From Python values; numbers may come as text where it is not strict. Raises BadRequest that names the field."""
    try:
        return msgspec.convert(dict(fields), kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _explained(error) from None


def read_group_name(text: str) -> str:
    try:
        return msgspec.convert(text, GroupName)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The name of a group: {_explained(error).message}", param="id") from None


def check_networks(networks: tuple[str, ...]) -> None:
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            raise BadRequest(
                f"allowed_ips: expected addresses and networks such as 10.0.0.0/8; {error}.", param="allowed_ips"
            ) from None


def _explained(error: msgspec.ValidationError) -> BadRequest:
    text, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if "matching regex" in text:
        text = "It holds characters that cannot be used here"
    if unknown := re.search(r"unknown field `(.*)`", text, re.DOTALL):
        field = field or unknown[1]
    return BadRequest(f"{field[:100]}: {text[:200]}." if field else f"{text[:200]}.", param=field[:100] or None)
