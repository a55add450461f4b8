"""Templates: a tenant's people share them, and whoever made one may change it."""

from __future__ import annotations

from typing import Any

from gateway.identity.records import Key, User, user_id
from gateway.store.directory import Actor
from tests.gateway.conftest import RunningDoor, error_of

TEMPLATES = "/chat/v1/templates"


async def person(door: RunningDoor, name: str, **fields: Any) -> dict[str, str]:
    """Somebody of this name; the header that they come with."""
    assert door.app.door is not None
    user = User(id=user_id("local", name), issuer="local", subject=name, name=name, **fields)
    await door.app.door.directory.create(None, user)
    actor = Actor("cli", "cli", "cli", "here")
    made = await door.app.door.key_ring.issue(actor, Key(id="", digest="", owner=f"user:{user.id}", name="own"))
    return {"authorization": f"Bearer {made.key}"}


async def test_a_tenant_shares_templates_and_their_makers_change_them(door: RunningDoor) -> None:
    aki, bo, other = await person(door, "Aki"), await person(door, "Bo"), await person(door, "Cy", tenant="other")
    path = f"{TEMPLATES}/Minutes of a meeting"
    async with door.client.put(path, json={"text": "Summarise: {text}"}, headers=aki) as response:
        made = await response.json()
        assert (made["name"], made["by"], made["may_change"]) == ("Minutes of a meeting", "Aki", True)
        assert "owner" not in made
    async with door.client.get(TEMPLATES, headers=bo) as response:
        assert (await response.json())["data"] == [made | {"may_change": False}]
    for headers, status in ((bo, 403), (other, 404)):
        async with door.client.delete(path, headers=headers) as response:
            await error_of(response, status)
    async with door.client.put(path, json={"text": "Mine"}, headers=bo) as response:
        await error_of(response, 403)
    async with door.client.put(path, json={"text": "Better"}) as response:  # an administrator
        assert (await response.json())["by"] == "Aki"
    async with door.client.get(path, headers=aki) as response:
        assert (await response.json())["text"] == "Better"
    async with door.client.delete(path, headers=aki) as response:
        assert response.status == 200
    async with door.client.get(TEMPLATES, headers=bo) as response:
        assert (await response.json())["data"] == []


async def test_a_template_outlives_its_maker_and_an_administrator_may_delete_it(door: RunningDoor) -> None:
    aki, bo = await person(door, "Aki"), await person(door, "Bo")
    path = f"{TEMPLATES}/Minutes"
    async with door.client.put(path, json={"text": "Summarise"}, headers=aki) as response:
        assert not (await response.json())["by_gone"]
    async with door.client.delete(f"/admin/v1/users/{user_id('local', 'Aki')}") as response:
        assert response.status == 200, await response.text()
    async with door.client.get(path, headers=bo) as response:
        shown = await response.json()
    assert (shown["by"], shown["by_gone"], shown["may_change"]) == ("Aki", True, False)
    async with door.client.get(path) as response:
        assert (await response.json())["may_change"]
    async with door.client.delete(path) as response:
        assert response.status == 200


async def test_a_template_has_a_name_that_can_be_shown_and_a_text(door: RunningDoor) -> None:
    for name in ("a%0Ab", "%E2%80%AEabc", "a%2Fb", "x" * 101, "%20"):
        async with door.client.put(f"{TEMPLATES}/{name}", json={"text": "x"}) as response:
            assert (await error_of(response, 400))["param"] == "name", name
    async with door.client.put(f"{TEMPLATES}/議事録", json={"text": ""}) as response:
        assert (await error_of(response, 400))["param"] == "text"
    async with door.client.put(f"{TEMPLATES}/議事録", json={"text": "要約"}) as response:
        assert (await response.json())["name"] == "議事録"
