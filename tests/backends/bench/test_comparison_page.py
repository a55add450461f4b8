"""The page of a comparison: medians and ratios first, whatever the servers are called."""

from __future__ import annotations

from backends.bench import BenchConfig, BenchError, Report, compare
from backends.bench.pages import comparison_page
from tests.backends.bench.reports import report

A, B = BenchConfig(url="http://a/<x>"), BenchConfig(url="http://b")


def page_of(rounds: int = 2) -> str:
    speeds = iter((50.0, 25.0, 40.0, 16.0))

    def run(target: BenchConfig) -> Report:
        if (speed := next(speeds, None)) is None:
            raise BenchError(f"no server answers at {target.url}")
        return report(4, each=speed)

    comparison = compare([A, B], rounds, run)
    return comparison_page(comparison.to_dict(), {k: v.to_dict(detailed=True) for k, v in comparison.named().items()})


def row_of(page: str, figure: str) -> list[str]:
    row = page[page.index(f"<code>{figure}</code>") :].split("</tr>")[0]
    return [cell.split("</td>")[0] for cell in row.split('<td class="whole">')[1:]]


def test_each_server_has_its_medians_and_the_first_its_ratios() -> None:
    page = page_of()
    assert row_of(page, "median_tpot_ms") == ["22.50", "51.25", "0.45 (0.40–0.50)"]
    assert row_of(page, "failed") == ["0.00", "0.00", ""]
    assert "<li>A: http://a/&lt;x&gt;</li><li>B: http://b</li>" in page
    assert "<x>" not in page
    assert "Requests running: B2 http://b" in page


def test_a_comparison_that_ended_early_says_so_above_its_runs() -> None:
    page = page_of(rounds=3)
    ended = "It ended in round 3 of 3, at http://a/&lt;x&gt;: no server answers at http://a/&lt;x&gt;"
    assert ended in page[: page.index("Every run")]
    assert "It ended" not in page_of()
