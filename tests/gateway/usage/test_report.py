"""The report: sums that agree whichever way they are cut, costs, and a spreadsheet that nobody can program."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from decimal import Decimal

import pytest

from gateway.errors import BadRequest
from gateway.settings import Price
from gateway.store.redis import Store
from gateway.usage import ledger, report
from gateway.usage.ledger import Used, Whose
from gateway.usage.report import By, UsageShown
from gateway.usage.sheet import as_csv
from tests.conftest import REDIS_TIMEOUT

FIRST, LAST = date(2026, 9, 21), date(2026, 9, 22)
DAY_MS = 1_790_000_000_000
PRICES = {
    "small": Price(input=Decimal("0.10"), output=Decimal("0.40")),
    "large*": Price(input=Decimal(2), cached_input=Decimal("0.5"), output=Decimal(8)),
}
GROUPS = {"usr_ann": ("research", "staff"), "usr_bob": ("staff",)}
NAMES = {"usr_ann": '=HYPERLINK("http://x")', "usr_bob": "鈴木"}


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """Two days: people, a program, and whom it asked for."""
    store = Store(redis_url, REDIS_TIMEOUT)
    uses = (
        ("usr_ann", DAY_MS, Used(1000, 100, 400), {"model": "large-1", "key_id": "k1"}),
        ("usr_ann", DAY_MS + 86_400_000, Used(10, 1), {"model": "small"}),
        ("usr_bob", DAY_MS, Used(500, 50), {"model": "small", "key_id": "k2", "acting": "rag"}),
        ("rag/guest", DAY_MS, Used(20, 2, failed=1), {"model": "unpriced", "key_id": "k2", "acting": "rag"}),
        ("rag", DAY_MS, Used(7, 3, estimated=1), {"model": "small", "key_id": "k2"}),
    )
    await store.run_all(
        *(ledger.settle(f"r{number}", ms, used, Whose(who, **by)) for number, (who, ms, used, by) in enumerate(uses))
    )
    yield store
    await store.aclose()


async def groups_of(subjects: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    return {subject: GROUPS[subject] for subject in subjects if subject in GROUPS}


async def names_of(by: By, ids: Sequence[str]) -> Mapping[str, str]:
    return NAMES if by == "user" else {}


async def told(store: Store, by: By, first: date = FIRST, last: date = LAST, limit: int = 1000) -> UsageShown:
    return await report.report(store, report.asked(by, first, last, limit), PRICES, groups_of, names_of)


def tokens(shown: UsageShown) -> dict[str, int]:
    return {row.id: row.prompt_tokens for row in shown.data}


@pytest.mark.parametrize(
    ("by", "prompt_tokens"),
    [
        ("user", {"usr_ann": 1010, "usr_bob": 500, "rag/guest": 20, "": 7}),
        ("service_account", {"": 1010, "rag": 527}),
        ("group", {"research": 1010, "staff": 1510, "": 27}),
        ("model", {"large-1": 1000, "small": 517, "unpriced": 20}),
        ("key", {"k1": 1000, "k2": 527, "": 10}),
        ("day", {"2026-09-21": 1527, "2026-09-22": 10}),
    ],
)
async def test_use_is_summed_by_what_is_asked(store: Store, by: By, prompt_tokens: dict[str, int]) -> None:
    shown = await told(store, by)
    assert tokens(shown) == prompt_tokens
    assert shown.others is None
    whole = shown.total
    assert (whole.requests, whole.failed, whole.estimated) == (5, 1, 1)
    assert (whole.prompt_tokens, whole.cached_tokens, whole.completion_tokens) == (1537, 400, 156)
    # 600 fresh, 400 cached and 100 output of large; 517 and 54 of small; the unpriced costs nothing.
    assert Decimal(whole.cost) == Decimal("0.0012") + Decimal("0.0002") + Decimal("0.0008") + Decimal("0.000073")


async def test_only_the_days_asked_for_count(store: Store) -> None:
    assert tokens(await told(store, "user", LAST, LAST)) == {"usr_ann": 10}
    empty = await told(store, "user", date(2026, 1, 1), date(2026, 1, 31))
    assert (empty.data, empty.others, empty.total.requests, empty.total.cost) == ([], None, 0, "0")


async def test_rows_past_the_limit_are_summed(store: Store) -> None:
    shown = await told(store, "user", limit=2)
    assert tokens(shown) == {"usr_ann": 1010, "usr_bob": 500}
    assert shown.others is not None
    assert shown.others.prompt_tokens == 27
    assert sum(row.prompt_tokens for row in shown.data) + shown.others.prompt_tokens == shown.total.prompt_tokens


@pytest.mark.parametrize(("first", "last"), [(LAST, FIRST), (date(2024, 1, 1), LAST), (date.min, date.max)])
def test_days_that_make_no_sense_are_refused(first: date, last: date) -> None:
    with pytest.raises(BadRequest, match="from: "):
        report.asked("day", first, last, 10)


def test_without_days_it_is_this_month_so_far() -> None:
    months = report.asked("day", None, None, 10)
    assert months.first.day == 1
    assert months.first.month == months.last.month
    assert report.asked("day", None, LAST, 10).first == date(2026, 9, 1)


async def test_more_than_can_be_summed_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_ACCOUNTS", 4)
    with pytest.raises(BadRequest, match="fewer days"):
        await told(store, "user")
    assert len((await told(store, "user", FIRST, FIRST)).data) == 4


async def test_a_sheet_has_every_row_and_no_formula(store: Store) -> None:
    lines = list(csv.reader(as_csv(await told(store, "user", limit=3)).splitlines()))
    assert lines[0][:4] == ["user", "name", "requests", "failed"]
    assert [line[:2] for line in lines[1:]] == [
        ["usr_ann", '\'=HYPERLINK("http://x")'],
        ["usr_bob", "鈴木"],
        ["rag/guest", ""],
        ["(others)", ""],
    ]
    assert {len(line) for line in lines} == {9}


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "＠x"])
async def test_no_name_is_taken_for_a_formula(store: Store, name: str) -> None:
    await store.run(ledger.settle("x", DAY_MS, Used(9999, 1), Whose("usr_x", name)))
    rows = list(csv.reader(as_csv(await told(store, "model")).splitlines(keepends=True)))
    assert rows[1][0] == f"'{name}"
