"""The page: whole without the network, safe whatever a server says, and what it tells."""

from __future__ import annotations

from html import escape
from xml.etree import ElementTree

import pytest
from playwright.sync_api import sync_playwright

from backends.bench.pages import html_page
from tests.backends.bench.results import EVIL, answered, failed, result
from tests.backends.bench.seen import Seen
from tests.gateway.chromium import chromium

RUNS = {
    f"{count} at once {EVIL}": result(
        *(answered(0.01 * index, 0.5 + 0.1 * index, 1 + 0.1 * index, 2 + 0.2 * index) for index in range(count)),
        failed(0.3),
        concurrency=count,
    )
    for count in (1, 4)
}


def test_it_fetches_nothing_and_runs_nothing() -> None:
    seen = Seen(html_page(RUNS, EVIL))
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(seen.tags)
    assert not [name for name in seen.attributes if name in ("src", "href", "style") or name.startswith("on")]


def test_the_plots_are_those_of_each_run_and_those_of_all_together() -> None:
    seen = Seen(html_page(RUNS))
    first, second = RUNS
    assert seen.figures == [
        "Time to first token (share of requests)",
        "Time per output token after the first (share of requests)",
        "End-to-end latency (share of requests)",
        "Inter-token latency (share of gaps)",
        "Throughput of all against speed for one person",
        f"Requests running: {first}",
        f"Requests running: {second}",
    ]


def test_each_run_has_its_line_and_its_dot() -> None:
    page = html_page(RUNS)
    pieces = [piece.split("</svg>")[0] for piece in page.split("<figure>")[1:]]
    plots = [ElementTree.fromstring(piece[piece.index("<svg") :] + "</svg>") for piece in pieces]
    for cumulative in plots[:4]:
        assert [path.attrib["class"] for path in cumulative.findall("path") if "line" in path.attrib["class"]] == [
            "line c0 d0",
            "line c1 d1",
        ]
    assert len(plots[4].findall("circle")) == 2
    for running in plots[5:]:
        assert [path.attrib["class"] for path in running.findall("path") if "area" in path.attrib["class"]] == [
            "area waits c0",
            "area c0",
        ]


def test_a_single_dot_is_told_by_its_figures() -> None:
    page = html_page({"only": result(answered(0, 1, 1.5, 2.0))})
    assert ">2.0, 2</text>" in page


def test_figures_stand_in_the_table_a_column_a_run() -> None:
    page = html_page(RUNS)
    cells = Seen(page).cells
    for one in RUNS.values():
        assert f"{one['output_throughput']:,.2f}" in cells
        assert f"{one['p99_e2el_ms']:,.2f}" in cells
    assert "Request goodput" not in page, "no run has one"


def test_an_objective_is_a_line_in_the_plot_of_its_figure_with_how_many_kept_it() -> None:
    runs = {"a run": result(answered(0, 1, 2), answered(0, 3, 3.5), goodput={"ttft": 1000.0, "tpot": 750.0})}
    page = html_page(runs)
    drawn = {piece.split('aria-label="')[1].split('"')[0]: piece for piece in page.split("<figure>")[1:]}
    marked = {name for name, piece in drawn.items() if piece.count('class="limit "') + piece.count('class="limit"') > 1}
    assert marked == {
        "Time to first token (share of requests)",
        "Time per output token after the first (share of requests)",
        "Throughput of all against speed for one person",
    }
    assert "limit 1,000 ms: 50% within" in page, "who keeps it exactly keeps it"
    assert "target 1.33 tok/s" in page


def test_a_limit_far_above_all_values_is_told_and_not_drawn() -> None:
    page = html_page({"a run": result(answered(0, 0.01, 0.02), goodput={"ttft": 2000.0})})
    assert "limit 2,000 ms: 100% within" in page
    assert 'class="limit"' not in page, "it would press all values to the edge"


def test_what_the_server_told_is_drawn_and_what_it_did_not_is_said() -> None:
    series = {"times": [0.0, 0.5], "num_requests_running": [1, 2], "kv_cache_usage_perc": [0.1, None]}
    told = result(answered(0, 1)) | {"server_metrics": series}
    silent = result(answered(0, 1)) | {
        "server_metrics_absent": "KV use is not known: http://<here>/metrics answered 404"
    }
    assert Seen(html_page({"told": told})).figures[-1] == "What the server told: requests"
    seen = Seen(html_page({"told": told, "silent": silent}))
    assert [figure for figure in seen.figures if "server" in figure] == [
        "What the server told: KV cache in use",
        "What the server told: requests: told",
    ]
    assert "not known: http://&lt;here&gt;/metrics answered 404" in html_page({"silent": silent})


def test_a_figure_that_one_run_alone_has_is_a_dash_in_the_others() -> None:
    page = html_page({"with": result(answered(0, 1), goodput={"ttft": 2000}), "without": result(answered(0, 1))})
    row = page[page.index("Request goodput") :].split("</tr>")[0]
    assert row.endswith("<td>1.00</td><td>–</td><td></td>")


def test_a_group_of_figures_has_a_heading_of_its_own_where_it_has_figures() -> None:
    page = html_page({"a run": result(answered(0, 1, 2), concurrency=4)})
    groups = page.split('<tr class="group">')[1:]
    assert len(groups) == 5, "four of vLLM's, and the wait for a place"
    assert all(group.split("</tr>")[0].count("<td>") == 0 for group in groups)
    assert len(html_page({"a run": result(answered(0, 1, 2))}).split('<tr class="group">')) == 1 + 4


def test_of_two_runs_the_ratio_of_each_figure_stands_beside_them() -> None:
    page = html_page({"fast": result(answered(0, 1, 2)), "slow": result(answered(0, 2, 4))})
    row = page[page.index("Request throughput") :].split("</tr>")[0]
    assert row.endswith("<td>0.50</td><td>0.25</td><td>2.00</td>")
    assert "Ratio" not in html_page(RUNS | {"third": RUNS[next(iter(RUNS))]})


def test_each_run_is_named_under_the_plots_that_they_share() -> None:
    for name in RUNS:
        assert html_page(RUNS).count(f"</svg>{escape(name)}</li>") == 4


def test_a_single_run_is_not_named_beside_its_plots() -> None:
    page = html_page({"only": result(answered(0, 1, 2))})
    assert "only" not in page[: page.index("<table>")]
    assert Seen(page).figures[-1] == "Requests running"


def test_errors_are_told_with_their_count_before_any_plot() -> None:
    page = html_page(RUNS)
    assert "1 × =HYPERLINK(&quot;x&quot;)&lt;script&gt;" in page[: page.index("<svg")]
    assert "Remarks" not in html_page({"fine": result(answered(0, 1))})


def test_figures_that_may_not_be_the_servers_come_with_a_remark() -> None:
    doubtful = result(answered(0, 1)) | {
        "client_bottlenecks": ["it computed 99% of <the> time"],
        "counted_by_server": False,
    }
    page = html_page({"a run": doubtful})
    assert "the load generator was a bottleneck" in page
    assert "it computed 99% of &lt;the&gt; time" in page
    assert "pieces of text were counted as tokens" in page


def test_runs_without_an_answer_or_without_details_make_a_page_too() -> None:
    assert Seen(html_page({"none": result(failed(0))})).figures == []
    plain = {name: value for name, value in RUNS[next(iter(RUNS))].items() if not isinstance(value, list)}
    assert Seen(html_page({"plain": plain})).figures == ["Throughput of all against speed for one person"]


def test_what_a_reader_is_told_in_english_is_told_in_japanese() -> None:
    page = html_page(RUNS)
    for english, japanese in (("Figures", "数値"), ("Median", "中央値"), ("Requests running", "実行中のリクエスト")):
        assert english in page
        assert japanese in page


@pytest.mark.slow
@pytest.mark.parametrize(("width", "look"), [(360, "dark"), (1200, "light")])
def test_in_a_browser_it_keeps_to_the_screen_and_complains_of_nothing(width: int, look: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=look)
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        many = {f"{name} {number}": run for number in range(8) for name, run in RUNS.items()}
        page.set_content(html_page(many, EVIL))
        assert page.evaluate("document.documentElement.scrollWidth") == width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.close()
    assert ground == ("rgb(20, 23, 26)" if look == "dark" else "rgb(246, 245, 241)")
    assert (said, asked) == ([], [])
