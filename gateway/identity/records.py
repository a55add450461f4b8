"""What the door remembers of people and programs: users, groups, service accounts, API keys. Plain data, as stored."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, ClassVar

from gateway.scope import Endpoint, Grant, Principal, QueueClass, Role
from gateway.store.record import Record

DEFAULT_TENANT = "default"
# The issuer of people whom no provider vouches for: the operator of this machine.
LOCAL_ISSUER = "local"


class User(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A person: one (issuer, subject), never an e-mail address. Made at the first sign-in."""

    kind: ClassVar[str] = "user"

    issuer: str
    subject: str
    name: str = ""
    email: str = ""  # for people to recognise; nothing is decided by it
    # As decided at the last sign-in, and why, a sentence each.
    role: Role = "user"
    tenant: str = DEFAULT_TENANT
    groups: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    problem: str = ""  # what keeps the person out, such as groups_overage
    token_issued: int = 0  # Unix seconds at which the newest token that told of the person was: an older one is no news
    # As set by an admin; these go before what a sign-in decides.
    set_role: Role | None = None
    set_tenant: str | None = None
    set_groups: tuple[str, ...] | None = None
    disabled: bool = False
    last_seen: int = 0  # Unix seconds


class Group(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What belonging to a group gives. The id is the group's name as the provider's claim spells it."""

    kind: ClassVar[str] = "group"

    description: str = ""
    role: Role | None = None
    tenant: str | None = None


class ServiceAccount(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A program, such as a RAG orchestrator."""

    kind: ClassVar[str] = "service_account"

    name: str = ""
    description: str = ""
    role: Role = "service"
    tenant: str = DEFAULT_TENANT
    groups: tuple[str, ...] = ()
    disabled: bool = False
    created_by: str = ""


class Key(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An API key as stored: nothing here lets anyone in."""

    kind: ClassVar[str] = "key"
    secret_fields: ClassVar[frozenset[str]] = frozenset({"digest", "previous_digest"})

    owner: str  # user:<id> or service_account:<id>
    name: str = ""
    digest: str
    previous_digest: str = ""  # before the last rotation
    previous_until: int = 0  # Unix seconds to which it still opens
    models: tuple[str, ...] | None = None
    endpoints: tuple[Endpoint, ...] | None = None
    on_behalf_of: bool = False
    forwards_users: bool = False  # its holder is an Open WebUI that signs whom it forwards
    queue_class: QueueClass | None = None  # None: api, or interactive where it forwards people who wait at a page
    allowed_ips: tuple[str, ...] = ()  # addresses and networks; none: from anywhere
    expires: int = 0  # Unix seconds; 0: never
    created_by: str = ""

    def grant(self) -> Grant:
        endpoints = None if self.endpoints is None else frozenset(self.endpoints)
        usual: QueueClass | None = "interactive" if self.forwards_users else None
        return Grant(self.models, endpoints, self.on_behalf_of, self.queue_class or usual)


KINDS: dict[str, type[Record]] = {record.kind: record for record in (User, Group, ServiceAccount, Key)}


def as_principal(who: User | ServiceAccount, **how: Any) -> Principal:
    """`how`: what the credential adds, such as its grant. What an admin has set goes before what a sign-in decided."""
    if isinstance(who, ServiceAccount):
        return Principal(who.id, who.name, who.role, who.tenant, who.groups, **how)
    groups = who.groups if who.set_groups is None else who.set_groups
    return Principal(
        who.id, who.name or who.email, who.set_role or who.role, who.set_tenant or who.tenant, groups, **how
    )


def user_id(issuer: str, subject: str) -> str:
    """Of fixed form whatever a provider calls its people, and telling nothing of them."""
    digest = hashlib.sha256(f"{issuer}\0{subject}".encode()).digest()
    return "usr_" + base64.b32encode(digest[:15]).decode().lower()
