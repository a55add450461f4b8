"""The self-test at a real door: it says what refuses, notices what does not, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from backends.fake import FakeBackend, chat_script
from gateway.cli import selftest
from gateway.cli.console import CliError
from gateway.cli.selftest import Outcome
from gateway.quotas.book import PolicyBook
from gateway.quotas.policy import LIMITS
from tests.gateway.admin.conftest import answer
from tests.gateway.conftest import ADMIN_KEY, RunningDoor, StartDoor, redis_url, start_door

__all__ = ["redis_url", "start_door"]

PRICES = {"*": {"input": "1", "output": "2"}}


async def proved(door: RunningDoor, key: str = ADMIN_KEY) -> dict[str, Outcome]:
    return {outcome.kind: outcome for outcome in await selftest.prove(door.url, key, "")}


async def remains(door: RunningDoor) -> list[Any]:
    return [
        one for path in ("/policies", "/service-accounts", "/keys") for one in (await answer(door, "GET", path))["data"]
    ]


async def test_each_kind_of_limit_is_seen_to_refuse(start_door: StartDoor) -> None:
    # Slow enough that requests sent together run together.
    door = await start_door(FakeBackend(lambda body: chat_script(("a",) * 3, gap=0.05)), prices=PRICES)
    before = await remains(door)
    outcomes = await proved(door)
    assert set(outcomes) == {*LIMITS, "shadow"}
    assert {outcome.verdict for kind, outcome in outcomes.items() if kind != "shadow"} == {"refused"}, outcomes
    assert outcomes["shadow"].verdict == "let through"
    assert outcomes["requests_per_day"].detail == "after 3: 429 insufficient_quota"
    assert outcomes["allowed_models"].detail == "after 0: 404 model_not_found"
    assert await remains(door) == before


async def test_what_lets_everything_through_fails(start_door: StartDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: PolicyBook) -> tuple[()]:
        return ()

    monkeypatch.setattr(PolicyBook, "all", none)
    door = await start_door()
    outcomes = await proved(door)
    assert outcomes.pop("shadow").verdict == "let through"
    assert outcomes.pop("cost_per_month").verdict == "skipped"
    assert {outcome.verdict for outcome in outcomes.values()} == {"failed"}, outcomes
    assert len(await remains(door)) == 1


async def test_another_policys_refusal_proves_nothing(start_door: StartDoor) -> None:
    door = await start_door()
    await answer(door, "PUT", "/policies/all", {"requests_per_day": 1})
    outcomes = await proved(door)
    assert outcomes["requests_per_minute"].verdict == "failed"
    assert "'all'" in outcomes["requests_per_minute"].detail


async def test_what_was_made_is_removed_whatever_happens(
    start_door: StartDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> Outcome:
        raise RuntimeError("the line was cut")

    monkeypatch.setattr(selftest, "_tried", fails)
    monkeypatch.setattr(selftest, "_SPREADING_SECONDS", 0)
    door = await start_door()
    before = await remains(door)
    with pytest.raises(RuntimeError):
        await proved(door)
    assert await remains(door) == before


async def test_whoever_may_not_is_told(start_door: StartDoor) -> None:
    door = await start_door(FakeBackend())
    with pytest.raises(CliError, match="refuses"):
        await proved(door, "sk-skh-nobody-0123456789abcdef")
    with pytest.raises(CliError, match="does not answer"):
        await selftest.prove("http://127.0.0.1:9", ADMIN_KEY, "m")
