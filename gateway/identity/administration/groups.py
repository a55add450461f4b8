"""Groups: what belonging to one gives. They are named as the provider's claim spells them."""

from __future__ import annotations

import time

import msgspec

from gateway.errors import Conflict, NotFound
from gateway.identity.administration.forms import GroupPut, Paging, read_group_name
from gateway.identity.administration.office import Office, page, records
from gateway.identity.administration.users import refuse_locking_out
from gateway.identity.administration.views import Deleted, GroupShown, Page, of_group
from gateway.identity.records import Group, User, as_principal
from gateway.store.directory import Actor


async def listed(office: Office, query: Paging) -> Page[GroupShown]:
    found, following = await records(office, Group, query.after, query.limit)
    return page([of_group(group) for group in found], following)


async def shown(office: Office, group: str) -> GroupShown:
    return of_group(await office.directory.find(Group, group))


async def put(office: Office, actor: Actor, group: str, form: GroupPut) -> GroupShown:
    """The whole group as given, whether or not there was one. It counts for its members within a second."""
    name = read_group_name(group)
    if form.role != "admin":
        await _refuse_locking_out(office, actor, name)
    try:
        return of_group(await _replace(office, actor, name, form))
    except NotFound:
        made = Group(id=name, created=int(time.time()), **form.given())
    try:
        await office.directory.create(actor, made)
    except Conflict:  # another administrator was quicker
        return of_group(await _replace(office, actor, name, form))
    return of_group(made)


async def delete(office: Office, actor: Actor, group: str) -> Deleted:
    await _refuse_locking_out(office, actor, group)
    await office.directory.delete(actor, Group, group)
    return Deleted(id=group, object=Group.kind)


async def _replace(office: Office, actor: Actor, group: str, form: GroupPut) -> Group:
    return await office.directory.change(
        actor, Group, group, lambda before: msgspec.structs.replace(before, **form.given())
    )


async def _refuse_locking_out(office: Office, actor: Actor, group: str) -> None:
    """Nobody takes away the group's role by which they administer, even if another group gives it too."""
    me = await office.directory.get(User, actor.subject)
    if me is None or me.set_role is not None or as_principal(me).role != "admin":
        return
    before = await office.directory.get(Group, group) if group in as_principal(me).groups else None
    refuse_locking_out(before is not None and before.role == "admin")
