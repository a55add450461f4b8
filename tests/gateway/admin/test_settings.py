"""The settings as administrators see them: each with its source, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import Settings, load, shown
from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import RunningDoor


def by_name(settings: Settings) -> dict[str, Any]:
    return {one.name: one for one in shown(settings)}


def test_each_value_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("max_queue: 7\nport: 9000\nlog_level: debug\n")
    found = by_name(load(file, {"SEKISHO_PORT": "9001", "SEKISHO_LOG_LEVEL": "error"}, log_level="warning"))
    told = {name: (found[name].value, found[name].source) for name in ("max_queue", "port", "log_level", "host")}
    assert told == {
        "max_queue": (7, "file"),
        "port": (9001, "environment"),
        "log_level": ("warning", "flag"),
        "host": ("127.0.0.1", "default"),
    }
    assert found["port"].default == 8080
    assert set(found) == set(Settings.model_fields)
    assert all(one.description for one in found.values())


@pytest.mark.parametrize(
    "given",
    [
        {"bootstrap_key": "sk-skh-first-hush0123456789abcdef"},
        {"engine_api_key": "hush"},
        {"open_webui_secret": "hush-hush-hush-hush-hush-hush-hush"},
        {"redis_url": "redis://gateway:hush@127.0.0.1:6379/0"},
        {"redis_url": "redis://:hush@127.0.0.1:6379/0"},
        {"engine_url": "https://somebody:hush@engine.example.com"},
        {"backends": [{"name": "a", "kind": "openai", "url": "https://x:hush@example.com", "api_key": "hush"}]},
        {"issuers": [{"issuer": "https://login.example.com", "client_id": "door", "client_secret": "hush"}]},
    ],
)
def test_no_secret_is_shown_but_that_there_is_one(given: dict[str, Any]) -> None:
    (name,) = given
    told = by_name(load(**given))[name]
    text = json.dumps([told.value, told.default])
    assert "hush" not in text
    assert "**********" in text


async def test_they_are_served(office: RunningDoor) -> None:
    found = {one["name"]: one for one in (await answer(office, "GET", "/settings"))["data"]}
    assert found["issuers"]["source"] == "flag"
    assert found["backends"]["live"]
    assert not found["port"]["live"]
