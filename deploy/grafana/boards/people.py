"""What people notice: how soon an answer begins, how quickly it reads, and whether it comes."""

from __future__ import annotations

from deploy.grafana.boards.queries import per_second, quantile, quantiles
from deploy.grafana.panels import Board, Limit, Panel, Query, Variable

_MODEL = 'model=~"$model"'
_WAITED_FOR = f'{_MODEL}, class!="batch"'  # batch work waits by design
_SPEED = "suffix: tok/s"


def _speed(share: float) -> str:
    """What this share of answers reaches or exceeds; nothing where there was none."""
    return f"1 / ({quantile(share, 'sekisho_tpot_seconds', _WAITED_FOR)} > 0)"


PEOPLE = Board(
    "people",
    "Sekisho: people's experience",
    (
        "Whether answers are as promised: begun within 2 s, 20 tokens a second, no failure. Batch work is left out.",
        "約束どおりに答えが届いているか。最初のトークンは2秒以内、毎秒20トークン、失敗なし。バッチ処理は含まない。",
    ),
    [Variable("model", "sekisho_requests_total")],
    [
        Panel(
            "Goodput",
            (
                "Share of answers in 5 minutes that were as promised; of the model where it is lowest. Target: 95 %.",
                "5分間に約束どおりだった答えの割合。最も低いモデルの値。目標は95%。",
            ),
            "percentunit",
            [Query(f"min(sekisho:goodput:ratio_5m{{{_MODEL}}})", "goodput")],
            "stat",
            Limit(0.95, floor=True),
            width=4,
            height=4,
        ),
        Panel(
            "First token, p95",
            (
                "19 of 20 answers begin within this, queue included; of the slowest model. Target: 2 s.",
                "20件中19件がこの時間内に始まる（待ち時間を含む）。最も遅いモデルの値。目標は2秒。",
            ),
            "s",
            [Query(f"max(sekisho:ttft_seconds:p95_5m{{{_MODEL}}})", "p95")],
            "stat",
            Limit(2),
            width=4,
            height=4,
        ),
        Panel(
            "Speed, median",
            (
                "Tokens a second of one answer, after its first. People read 20 to 30.",
                "一つの答えの毎秒トークン数（最初の後）。人が読む速さは20〜30。",
            ),
            _SPEED,
            [Query(_speed(0.5), "median")],
            "stat",
            Limit(20, floor=True),
            width=4,
            height=4,
        ),
        Panel(
            "Waiting now",
            (
                "Requests that wait for their turn, of all gateways and models.",
                "順番を待つリクエスト。全ゲートウェイ、全モデルの合計。",
            ),
            "short",
            [Query("sum(sekisho_waiting)", "waiting")],
            "stat",
            width=4,
            height=4,
        ),
        Panel(
            "Server errors",
            (
                "Share of API requests in 5 minutes with a status of 500 or above. An alert comes at 5 %.",
                "5分間に500以上のステータスで終わったAPIリクエストの割合。5%で警報。",
            ),
            "percentunit",
            [Query("sekisho:errors:ratio_5m", "errors")],
            "stat",
            Limit(0.05),
            quiet=True,
            width=4,
            height=4,
        ),
        Panel(
            "Answers a minute",
            ("Generation requests that ended, of all kinds.", "終わった生成リクエスト（毎分）。"),
            "short",
            [Query(f"60 * {per_second('sekisho_e2e_seconds_count', _WAITED_FOR)}", "answers")],
            "stat",
            width=4,
            height=4,
        ),
        Panel(
            "Time to the first token",
            (
                "From the head of the request to the first token, queue included. Dashed: the target.",
                "リクエスト到着から最初のトークンまで（待ち時間を含む）。破線は目標。",
            ),
            "s",
            quantiles("sekisho_ttft_seconds", _WAITED_FOR, ("p50", "p95", "p99")),
            limit=Limit(2),
        ),
        Panel(
            "Speed for each person",
            (
                "Tokens a second of single answers: the median, and the slowest twentieth. Dashed: the target.",
                "答えごとの毎秒トークン数。中央値と、最も遅い5%の値。破線は目標。",
            ),
            _SPEED,
            [
                Query(_speed(0.5), "median"),
                Query(_speed(0.95), "slowest twentieth"),
            ],
            limit=Limit(20, floor=True),
        ),
        Panel(
            "Answers by how they were",
            (
                "met: as promised. late: began too late. slow: below the target speed. failed: our fault.",
                "met: 約束どおり。late: 始まりが遅い。slow: 速度が目標未満。failed: こちら側の失敗。",
            ),
            "reqps",
            [Query(per_second("sekisho_slo_requests_total", _WAITED_FOR, "result"), "{{result}}")],
            stacked=True,
        ),
        Panel(
            "Time in the queue, p95",
            (
                "How long those waited who got a turn, by class: people at a page, programs, batch work.",
                "順番が来るまでの待ち時間。人（interactive）、プログラム（api）、バッチ別。",
            ),
            "s",
            [Query(quantile(0.95, "sekisho_queue_seconds", _MODEL, "class"), "{{class}}")],
        ),
        Panel(
            "Whole answers",
            (
                "From the head of the request to the last byte. Long answers take long.",
                "リクエスト到着から最後のバイトまで。長い答えほど長くかかる。",
            ),
            "s",
            quantiles("sekisho_e2e_seconds", _WAITED_FOR),
        ),
        Panel(
            "Failures by code",
            (
                "Requests that ended in an error, of every kind. client_gone: the person left or pressed stop.",
                "エラーで終わったリクエスト。client_gone は利用者が離れたか停止を押したもの。",
            ),
            "reqps",
            [Query(per_second("sekisho_failures_total", by="code"), "{{code}}")],
            stacked=True,
            quiet=True,
        ),
        Panel(
            "Failures that nobody noticed",
            (
                "After an engine failed: requests tried again elsewhere, and answers that another went on with.",
                "エンジンの失敗後、別のエンジンでやり直した、または続きを書いたもの。利用者は気づかない。",
            ),
            "reqps",
            [Query(per_second("sekisho_moved_total", by="how"), "{{how}}")],
            quiet=True,
        ),
        Panel(
            "Requests by status",
            ("Of every route. 499: the client left.", "全ルート。499 はクライアントが離れたもの。"),
            "reqps",
            [Query(per_second("sekisho_requests_total", by="status"), "{{status}}")],
            stacked=True,
        ),
    ],
)
