"""People arrive: made once, brought up to date where something changed, with the reason of each decision."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest

from gateway.errors import Forbidden
from gateway.identity.claims import GroupsOverage
from gateway.identity.group_book import GroupBook
from gateway.identity.people import People
from gateway.identity.records import Group, User, user_id
from gateway.settings import Issuer
from gateway.store.directory import Directory
from gateway.store.lookup import Lookup
from gateway.store.records import Records
from gateway.store.redis import Store

ISSUER = "https://login.example.com"
OVERAGE = {"_claim_names": {"groups": "src1"}}


class Office:
    """People as one worker sees them, without its short memory."""

    def __init__(self, store: Store, **settings: Any) -> None:
        self.directory = Directory(Records(store))
        issuer = Issuer(**{"issuer": ISSUER, "client_id": "sekisho", "group_roles": {"ops": "admin"}} | settings)
        self.people = People(self.directory, Lookup(self.directory, 0), GroupBook(self.directory, 0), [issuer])

    async def arrive(self, subject: str = "hanako", **claims: Any) -> User:
        return await self.people.arrive(ISSUER, _claims(subject, claims), "sign-in", "10.0.0.7")

    async def bearing(self, subject: str = "hanako", **claims: Any) -> User:
        return await self.people.bearing(ISSUER, _claims(subject, claims), "10.0.0.7")

    async def stored(self, subject: str = "hanako") -> User:
        return await self.directory.find(User, user_id(ISSUER, subject))

    async def admin_sets(self, subject: str = "hanako", **fields: Any) -> None:
        await self.directory.change(
            None, User, user_id(ISSUER, subject), lambda user: msgspec.structs.replace(user, **fields)
        )

    async def trail(self) -> list[dict[str, Any]]:
        return [json.loads(entry.data) for entry in await self.directory.trail()]


def _claims(subject: str, claims: dict[str, Any]) -> dict[str, Any]:
    return {"iss": ISSUER, "sub": subject, "iat": int(time.time())} | claims


@pytest.fixture
def office(store: Store) -> Office:
    return Office(store)


async def test_first_sign_in_makes_the_user_and_says_why_it_is_what_it_is(office: Office) -> None:
    user = await office.arrive(name="花子", email="h@example.com", groups=["ops", "sales"])
    assert user == await office.stored()
    assert (user.issuer, user.subject, user.name, user.email) == (ISSUER, "hanako", "花子", "h@example.com")
    assert (user.role, user.tenant, user.groups) == ("admin", "default", ("ops", "sales"))
    assert user.why[0] == "the group 'ops' gives the role admin (group_roles in the settings)"
    (line,) = await office.trail()
    assert (line["action"], line["target"], line["subject"]) == ("user.create", f"user:{user.id}", user.id)
    assert (line["via"], line["address"], line["after"]["why"]) == ("sign-in", "10.0.0.7", list(user.why))


async def test_many_first_requests_at_once_make_one_user(store: Store) -> None:
    workers = [Office(store) for _ in range(4)]
    users = await asyncio.gather(*(workers[number % 4].bearing(groups=["sales"]) for number in range(40)))
    assert len({user.id for user in users}) == 1
    assert [line["action"] for line in await workers[0].trail()] == ["user.create"]


async def test_person_is_issuer_and_subject_and_never_an_address(office: Office) -> None:
    await office.arrive("hanako", email="same@example.com", groups=["ops"])
    other = await office.arrive("taro", email="same@example.com")
    assert other.role == "user"
    assert len(await office.directory.page(User)) == 2


async def test_nothing_is_written_while_nothing_changes(office: Office) -> None:
    await office.arrive(groups=["sales"])
    before = await office.stored()
    for later in range(1, 4):
        await office.bearing(groups=["sales"], iat=int(time.time()) + later)
    assert await office.stored() == before
    assert len(await office.trail()) == 1


async def test_changed_role_is_kept_logged_and_in_the_trail(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sekisho.identity")
    await office.arrive(groups=["sales"])
    user = await office.arrive(groups=["ops"])
    assert (await office.stored()).role == user.role == "admin"
    line = (await office.trail())[0]
    assert (line["action"], line["before"]["role"], line["after"]["role"]) == ("user.change", "user", "admin")
    assert f"{user.id} of {ISSUER}: role admin, because the group 'ops' gives" in caplog.text


async def test_seen_again_after_an_hour_is_noted_without_a_line_in_the_trail(office: Office) -> None:
    await office.arrive()
    await office.admin_sets(last_seen=int(time.time()) - 3601)
    await office.arrive(name="花子")
    user = await office.stored()
    assert user.name == "花子"
    assert user.last_seen >= time.time() - 5
    assert len(await office.trail()) == 1


async def test_role_that_an_admin_gives_a_group_counts_from_the_next_token_on(office: Office) -> None:
    assert (await office.bearing(groups=["sales"])).role == "user"
    await office.directory.create(None, Group(id="sales", role="auditor", tenant="tokyo"))
    user = await office.bearing(groups=["sales"])
    assert (user.role, user.tenant) == ("auditor", "tokyo")
    assert (await office.stored()).role == "auditor"


async def test_what_an_admin_changes_of_groups_counts_at_once_for_who_signed_in_before(office: Office) -> None:
    """A session of days and a key of years look the person up; nobody shows a token again."""
    user = await office.arrive(groups=["sales"])
    await office.directory.create(None, Group(id="sales", role="admin", tenant="tokyo"))
    now = await office.people.known(user.id)
    assert now is not None
    assert (now.role, now.tenant) == ("admin", "tokyo")
    assert now.why[0] == "the group 'sales' gives the role admin (as an administrator has set it)"
    await office.admin_sets(set_groups=())
    now = await office.people.known(user.id)
    assert now is not None
    assert (now.role, now.tenant, now.why[0]) == ("user", "default", "no group gives a role, so it is user")
    assert await office.people.known("usr_nobody") is None


async def test_people_of_no_provider_of_the_settings_are_as_they_were_decided(office: Office) -> None:
    local = User(id="usr_local", issuer="local", subject="admin", role="admin")
    await office.directory.create(None, local)
    assert await office.people.known("usr_local") == local


async def test_disabled_person_stays_outside(office: Office) -> None:
    await office.arrive()
    await office.admin_sets(disabled=True)
    before = await office.stored()
    for come in (office.arrive, office.bearing):
        with pytest.raises(Forbidden) as caught:
            await come(groups=["ops"])
        assert caught.value.code == "account_disabled"
    assert await office.stored() == before


@pytest.mark.parametrize("way", ["arrive", "bearing"])
async def test_overage_keeps_out_is_seen_by_admins_and_ends_with_groups_set_by_hand(office: Office, way: str) -> None:
    come = getattr(office, way)
    for _ in range(2):
        with pytest.raises(GroupsOverage):
            await come(**OVERAGE)
    user = await office.stored()
    assert (user.problem, user.role, user.groups) == ("groups_overage", "user", ())
    await office.admin_sets(set_groups=("ops",))
    assert (await come(**OVERAGE)).role == "admin"
    assert ((await office.stored()).problem, (await office.stored()).role) == ("", "admin")


async def test_overage_takes_away_what_earlier_groups_gave(office: Office) -> None:
    await office.arrive(groups=["ops"])
    with pytest.raises(GroupsOverage):
        await office.arrive(**OVERAGE)
    assert (await office.stored()).role == "user"
    assert (await office.arrive(groups=["ops"])).problem == ""


async def test_token_without_the_groups_claim_gives_nothing_and_takes_nothing(office: Office) -> None:
    """Many providers put groups into ID tokens alone."""
    await office.arrive(groups=["ops"])
    shown = await office.bearing()
    assert (shown.role, shown.groups) == ("user", ())
    assert ((await office.stored()).role, (await office.stored()).groups) == ("admin", ("ops",))


async def test_sign_in_without_the_groups_claim_ends_what_groups_gave(office: Office) -> None:
    """Some providers leave the claim out where there is no group left to name."""
    await office.arrive(groups=["ops"])
    await office.arrive()
    assert (await office.stored()).role == "user"


async def test_older_token_speaks_for_its_own_request_alone(store: Store) -> None:
    one, other = Office(store), Office(store)
    old, new = int(time.time()) - 100, int(time.time())
    await one.bearing(groups=["ops"], iat=old)
    await one.bearing(groups=["sales"], iat=new)
    assert (await other.bearing(groups=["ops"], iat=old)).role == "admin"
    assert (await other.stored()).role == "user"


async def test_group_book_reads_all_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.group_book._PAGE", 3)
    directory = Directory(Records(store))
    for number in range(7):
        await directory.create(None, Group(id=f"g{number}"))
    assert len(await GroupBook(directory, 0).all()) == 7
