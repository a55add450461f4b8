"""The pages of `verify` and of a sweep: whole, safe whatever a server says, and what they tell."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from backends.bench.bound import Bound
from backends.bench.hypotheses import Verdict, answers, failed, gives_each, not_run
from backends.bench.pages import sweep_page, verification_page
from backends.bench.share import Share, keeps_its_share
from backends.bench.sweep import Sweep, Target, point_of
from tests.backends.bench.reports import report
from tests.backends.bench.results import EVIL, answered, result
from tests.backends.bench.seen import Seen
from tests.gateway.chromium import chromium

POINTS = [point_of(at, [report(at, each=speed)], Target()) for at, speed in ((1, 60), (8, 25), (16, 15))]
VERDICTS = [
    answers(report()),
    not_run(2, "no --baseline was given"),
    gives_each(POINTS, 16, 20),
    failed(4, EVIL),
    Verdict(5, "holds", "all were answered", doubts=(f"64 at once: {EVIL}",)),
    keeps_its_share([Share(1, (0.5, 0.6), Bound(9, "the memory")), Share(16, (0.8,), Bound(9, "the products"))]),
]


def server(url: str = EVIL, verdicts: list[Verdict] = VERDICTS, baseline: str | None = EVIL) -> dict[str, Any]:
    told = [verdict.to_dict() for verdict in verdicts]
    return {"url": url, "baseline": baseline, "limit": 64, "date": "20260102-030405", "verdicts": told}


def swept(advice: str = EVIL) -> str:
    told = Sweep(tuple(POINTS), 8, True).to_dict(Target()) | {"advice": advice, "doubts": [EVIL]}
    return sweep_page(told, {EVIL: result(answered(0, 1, 2))})


@pytest.mark.parametrize("page", [verification_page([server(), server()]), swept()], ids=["verify", "sweep"])
def test_it_fetches_nothing_runs_nothing_and_escapes_what_is_said(page: str) -> None:
    seen = Seen(page)
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(seen.tags)
    assert not [name for name in seen.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert "&lt;script&gt;alert" in page


def test_each_verdict_stands_with_what_it_rests_on_and_what_to_do() -> None:
    page = verification_page([server()])
    shown = page.split("<li><span")[1:]
    assert [one.split(">")[1].split(" <")[0] for one in shown] == [verdict.state for verdict in VERDICTS]
    for verdict, one in zip(VERDICTS, shown, strict=True):
        assert verdict.claim.replace("'", "&#x27;") in one
        assert ("→" in one) == (verdict.state == "fails")
    assert "--max-num-seqs 8" in shown[2]
    assert "<code>sekisho bench sweep</code>" in shown[2]
    assert "the load generator was a bottleneck, 64 at once" in shown[4]
    assert "2026-01-02 03:04 UTC" in page
    assert Seen(page).figures == ["Speed of each person", "Measured share of the computed bound"]


def test_several_servers_stand_side_by_side_and_one_does_not() -> None:
    silent = server("http://b", [failed(1, "no"), *(not_run(number, "no") for number in range(2, 7))], None)
    page = verification_page([server("http://a"), silent])
    row = page[page.index('<th scope="row">1 ') :].split("</tr>")[0]
    assert row.index("holds") < row.index("fails")
    assert "Side by side" not in verification_page([server()])


def test_a_sweep_tells_its_advice_its_points_and_the_runs() -> None:
    page = swept("Recommended: --max-num-seqs 8.")
    seen = Seen(page)
    assert seen.figures[:2] == ["Speed of each person", "Throughput of all"]
    assert "below 20 tok/s each" in seen.cells
    assert page.index("Recommended: --max-num-seqs 8.") < page.index("<svg")
    assert "Requests running" in seen.figures


@pytest.mark.slow
@pytest.mark.parametrize(("width", "look"), [(360, "dark"), (1200, "light")])
def test_in_a_browser_they_keep_to_the_screen_and_complain_of_nothing(width: int, look: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=look)
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        for made in (verification_page([server(), server("http://" + "b" * 200)]), swept()):
            page.set_content(made)
            assert page.evaluate("document.documentElement.scrollWidth") == width
        browser.close()
    assert said == []
