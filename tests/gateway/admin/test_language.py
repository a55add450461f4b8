"""Sentences of the API behind the pages come in the language of the page; all else is the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from gateway.api.language import refused
from gateway.errors import InternalError
from gateway.scope import RequestScope
from tests.gateway.admin.conftest import person
from tests.gateway.conftest import RunningDoor

JAPANESE = {"accept-language": "ja"}
COOKIE = {"cookie": "sekisho-language=ja", "accept-language": "en"}


async def asked(door: RunningDoor, method: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
    async with door.client.request(method, path, headers=headers, json=body) as response:
        return await response.json()


@pytest.mark.parametrize("headers", [JAPANESE, COOKIE])
async def test_reasons_are_told_in_the_readers_language(office: RunningDoor, headers: dict[str, str]) -> None:
    made = await person(office, set_role="auditor", name="an admin has set the role auditor")
    path = f"/admin/v1/users/{made['id']}"
    english, japanese = await asked(office, "GET", path, {}), await asked(office, "GET", path, headers)
    assert english["why"] == ["an admin has set the role auditor"]
    assert japanese["why"] == ["管理者が役割「監査者」を設定しました"]
    assert japanese | {"why": None} == english | {"why": None}, "names and codes are nobody's language"


async def test_a_refusal_keeps_its_code_and_is_told_in_the_readers_language(office: RunningDoor) -> None:
    path = "/admin/v1/backends/nobody/test"
    english, japanese = [(await asked(office, "POST", path, headers))["error"] for headers in ({}, JAPANESE)]
    assert english["message"] == "There is no backend 'nobody'."
    assert japanese == english | {"message": "バックエンド 'nobody' は存在しません。"}


@pytest.mark.parametrize(
    ("path", "is_japanese"),
    [("/v1/chat/completions", False), ("/v1/models", False), ("/chat/v1/answers", True), ("/admin/v1/users", True)],
)
def test_clients_of_the_official_api_get_its_english(path: str, is_japanese: bool) -> None:
    request = cast("RequestScope", SimpleNamespace(path=path, headers={b"accept-language": b"ja"}))
    error = msgspec.json.decode(refused(request, InternalError()))["error"]
    assert error["code"] == "internal_error"
    assert ("リクエスト番号" in error["message"]) == is_japanese
