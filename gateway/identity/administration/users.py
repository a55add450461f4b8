"""People: found, made before they come, changed, deleted."""

from __future__ import annotations

import time

import msgspec

from gateway.errors import Conflict
from gateway.identity.administration import keys, sessions
from gateway.identity.administration.forms import UserChange, UserNew, UserQuery
from gateway.identity.administration.office import Office, page, records
from gateway.identity.administration.views import Deleted, Page, UserShown, of_user
from gateway.identity.records import User, as_principal, user_id
from gateway.store.directory import Actor


async def listed(office: Office, query: UserQuery) -> Page[UserShown]:
    sought = query.search.casefold()

    def wanted(user: User) -> bool:
        if query.state is not None and user.disabled != (query.state == "disabled"):
            return False
        return any(sought in text.casefold() for text in (user.name, user.email, user.subject))

    is_asked = sought or query.state
    found, following = await records(office, User, query.after, query.limit, wanted if is_asked else None)
    return page([of_user(user) for user in found], following)


async def shown(office: Office, user: str) -> UserShown:
    return of_user(await office.directory.find(User, user))


async def create(office: Office, actor: Actor, form: UserNew) -> UserShown:
    """Before the first sign-in, so that the right role waits for it."""
    user = User(id=user_id(form.issuer, form.subject), created=int(time.time()), **form.given())
    await office.directory.create(actor, user)
    return of_user(user)


async def change(office: Office, actor: Actor, user: str, form: UserChange) -> UserShown:
    def edit(before: User) -> User:
        after = msgspec.structs.replace(before, **form.given())
        if actor.subject == user and as_principal(before).role == "admin":
            # Other groups may decide another role, though not before the next request.
            by_groups = after.set_role is None and after.set_groups != before.set_groups
            refuse_locking_out(after.disabled or as_principal(after).role != "admin" or by_groups)
        return after

    return of_user(await office.directory.change(actor, User, user, edit))


async def delete(office: Office, actor: Actor, user: str) -> Deleted:
    """With keys, sessions, conversations. Whom the provider still signs in comes back as new: to keep out, disable."""
    refuse_locking_out(actor.subject == user)
    await office.directory.find(User, user)
    owner = f"{User.kind}:{user}"
    await keys.delete_all_of(office, actor, owner)
    await office.directory.delete(actor, User, user)
    await sessions.sign_out(office, actor, user)
    # One that was made in between would open again if this person came back.
    await keys.delete_all_of(office, actor, owner)
    await office.forget(user)
    return Deleted(id=user, object=User.kind)


def refuse_locking_out(would: bool) -> None:
    if would:
        raise Conflict(
            "This would take your own administrator's rights away. Ask another administrator, or use the command line.",
            code="own_account",
        )
