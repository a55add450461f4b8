"""What the chat page has to know before anybody asks anything."""

from __future__ import annotations

from typing import Any

from backends.fake import FakeBackend
from tests.gateway.conftest import StartDoor, error_of


async def test_the_models_are_described_as_the_settings_say(start_door: StartDoor) -> None:
    engine: dict[str, Any] = {"name": "one", "kind": "fake", "url": "http://x", "images": True}
    engine["descriptions"] = {"large": "Thinks long.", "quick": "For short questions."}
    fake = FakeBackend(models=("large", "plain"))
    door = await start_door(
        engines={"one": fake}, backends=[engine], aliases={"quick": "plain"}, chat_notice="No secrets."
    )
    async with door.client.get("/chat/v1/settings") as response:
        assert response.headers["cache-control"] == "no-store"
        told = await response.json()
    assert told["models"] == [
        {"id": "large", "description": "Thinks long.", "context": 4096, "vision": True},
        {"id": "plain", "description": "", "context": 4096, "vision": True},
        {"id": "quick", "description": "For short questions.", "context": 4096, "vision": True},
    ]
    assert told["notice"] == "No secrets."
    assert (told["storage"], told["retention_days"], told["max_message_bytes"]) == ("server", 90.0, 262_144)


async def test_programs_have_no_conversations(start_door: StartDoor) -> None:
    door = await start_door()
    async with door.client.post("/admin/v1/service-accounts", json={"name": "Bot"}) as response:
        account = (await response.json())["id"]
    async with door.client.post(
        "/admin/v1/keys", json={"owner": f"service_account:{account}", "name": "key"}
    ) as response:
        key = (await response.json())["key"]
    for path in ("settings", "conversations"):
        async with door.client.get(f"/chat/v1/{path}", headers={"authorization": f"Bearer {key}"}) as response:
            await error_of(response, 403, "people_only")
