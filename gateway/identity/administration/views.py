"""What an administrator is shown: plain data made of records, without their secrets, each field always there."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import msgspec

from gateway.identity.records import Group, Key, ServiceAccount, User, as_principal
from gateway.identity.sessions import Session
from gateway.scope import Endpoint, Principal, QueueClass, Role

T = TypeVar("T")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix seconds; null: never."""


class Page(View, Generic[T], frozen=True, kw_only=True):
    """May hold fewer than were asked for, even none, while there is more: ask again from `next`."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool
    next: str | None


class Deleted(View, frozen=True, kw_only=True):
    id: str
    object: str
    deleted: bool = True


class Decided(View, frozen=True, kw_only=True):
    """By the last sign-in."""

    role: Role
    tenant: str
    groups: tuple[str, ...]


class UserShown(View, frozen=True, kw_only=True):
    """role, tenant, groups: what holds now. set_...: what an admin has set, which goes before what was decided."""

    id: str
    object: Literal["user"] = "user"
    issuer: str
    subject: str
    name: str
    email: str
    role: Role
    tenant: str
    groups: tuple[str, ...]
    why: tuple[str, ...]
    problem: str | None
    disabled: bool
    set_role: Role | None
    set_tenant: str | None
    set_groups: tuple[str, ...] | None
    decided: Decided
    created: int
    last_seen: int | None


class GroupShown(View, frozen=True, kw_only=True):
    id: str
    object: Literal["group"] = "group"
    description: str
    role: Role | None
    tenant: str | None
    created: int


class ServiceAccountShown(View, frozen=True, kw_only=True):
    id: str
    object: Literal["service_account"] = "service_account"
    name: str
    description: str
    role: Role
    tenant: str
    groups: tuple[str, ...]
    disabled: bool
    created: int
    created_by: str


class KeyShown(View, frozen=True, kw_only=True):
    """previous_until: how long the secret before the last rotation still opens.

    queue_class: null is api, or interactive for one that forwards users.
    """

    id: str
    object: Literal["key"] = "key"
    owner: str
    name: str
    models: tuple[str, ...] | None
    endpoints: tuple[Endpoint, ...] | None
    on_behalf_of: bool
    forwards_users: bool
    queue_class: QueueClass | None
    allowed_ips: tuple[str, ...]
    expires: int | None
    previous_until: int | None
    last_used: int | None
    created: int
    created_by: str


class KeyMade(KeyShown, frozen=True, kw_only=True):
    """key: the key itself, shown this once."""

    key: str


class SessionShown(View, frozen=True, kw_only=True):
    """name: the person's; null where there is none. seen: last used, to within a minute. ends: at the latest.

    agent: the browser in its own words.
    """

    id: str
    object: Literal["session"] = "session"
    user: str
    name: str | None
    issuer: str
    created: int
    seen: int
    ends: int
    address: str
    agent: str


class ActorShown(View, frozen=True, kw_only=True):
    subject: str
    name: str
    via: str
    address: str


class AuditEntry(View, frozen=True, kw_only=True):
    id: str
    object: Literal["audit_entry"] = "audit_entry"
    at: int
    actor: ActorShown
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class SignedOut(View, frozen=True, kw_only=True):
    """ended: how many sessions there were."""

    id: str
    object: Literal["user.signed_out"] = "user.signed_out"
    ended: int


class WhoAmI(View, frozen=True, kw_only=True):
    """models, endpoints: what the credential is limited to; null: it is not."""

    object: Literal["principal"] = "principal"
    subject: str
    name: str
    role: Role
    tenant: str
    groups: tuple[str, ...]
    why: tuple[str, ...]
    models: tuple[str, ...] | None
    endpoints: tuple[Endpoint, ...] | None
    on_behalf_of: bool
    key_id: str | None
    session_id: str | None
    acting: str | None


def of_user(user: User) -> UserShown:
    now = as_principal(user)
    return UserShown(
        id=user.id,
        issuer=user.issuer,
        subject=user.subject,
        name=user.name,
        email=user.email,
        role=now.role,
        tenant=now.tenant,
        groups=now.groups,
        why=why(user),
        problem=user.problem or None,
        disabled=user.disabled,
        set_role=user.set_role,
        set_tenant=user.set_tenant,
        set_groups=user.set_groups,
        decided=Decided(role=user.role, tenant=user.tenant, groups=user.groups),
        created=user.created,
        last_seen=user.last_seen or None,
    )


def why(user: User) -> tuple[str, ...]:
    """Why this role, tenant and groups: what an admin has set first, for it goes before the rest."""
    said = []
    if user.set_role is not None:
        said.append(f"an admin has set the role {user.set_role}")
    if user.set_tenant is not None:
        said.append(f"an admin has set the tenant {user.set_tenant}")
    if user.set_groups is not None:
        said.append(f"an admin has set the groups {', '.join(user.set_groups) or '(none)'}")
    return (*said, *user.why)


def of_group(group: Group) -> GroupShown:
    return GroupShown(
        id=group.id,
        description=group.description,
        role=group.role,
        tenant=group.tenant,
        created=group.created,
    )


def of_service_account(account: ServiceAccount) -> ServiceAccountShown:
    return ServiceAccountShown(**account.public())


def of_key(key: Key, last_used: int | None) -> KeyShown:
    return KeyShown(**_key(key, last_used))


def of_new_key(key: Key, secret: str, last_used: int | None = None) -> KeyMade:
    return KeyMade(**_key(key, last_used), key=secret)


def of_session(session: Session, name: str | None) -> SessionShown:
    return SessionShown(**session.public(), name=name)


def of_principal(who: Principal, reasons: tuple[str, ...]) -> WhoAmI:
    endpoints = who.grant.endpoints
    return WhoAmI(
        subject=who.subject,
        name=who.name,
        role=who.role,
        tenant=who.tenant,
        groups=who.groups,
        why=reasons,
        models=who.grant.models,
        endpoints=None if endpoints is None else tuple(sorted(endpoints)),
        on_behalf_of=who.grant.on_behalf_of,
        key_id=who.key_id or None,
        session_id=who.session_id or None,
        acting=who.acting or None,
    )


def _key(key: Key, last_used: int | None) -> dict[str, Any]:
    times = {"expires": key.expires or None, "previous_until": key.previous_until or None, "last_used": last_used}
    return key.public() | times
