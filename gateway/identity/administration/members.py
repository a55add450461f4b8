"""Who the ids in a report are: their names, and the groups that they are in now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.identity.administration.office import Office
from gateway.identity.records import Key, ServiceAccount, User, as_principal


async def groups_of(office: Office, subjects: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Of those that exist; whom a program has named by a name of its own is in none."""
    people = await office.directory.some(User, [subject for subject in subjects if subject.startswith("usr_")])
    programs = await office.directory.some(ServiceAccount, [subject for subject in subjects if "/" not in subject])
    found = {program.id: program.groups for program in programs}
    return found | {person.id: as_principal(person).groups for person in people}


async def names_of(office: Office, kind: str, ids: Sequence[str]) -> Mapping[str, str]:
    """What people call them; kinds that have no names have none."""
    found: Sequence[User | ServiceAccount | Key] = ()
    if kind == User.kind:
        found = await office.directory.some(User, ids)
    elif kind == ServiceAccount.kind:
        found = await office.directory.some(ServiceAccount, ids)
    elif kind == Key.kind:
        found = await office.directory.some(Key, ids)
    return {record.id: record.name for record in found if record.name}
