"""What the machines carry: places, queue, tokens, and each engine behind the door."""

from __future__ import annotations

from deploy.grafana.boards.queries import per_second, quantile, quantiles, share
from deploy.grafana.panels import Board, Limit, Panel, Query, Variable

_BACKEND = 'backend=~"$backend"'
_MODEL = 'model=~"$model"'
_PLACES = f"sum(max by (backend) (sekisho_permits{{{_BACKEND}}}))"
_REFUSALS = 'sekisho_failures_total{code=~"queue_full|queue_timeout"}'

CAPACITY = Board(
    "capacity",
    "Sekisho: capacity",
    (
        "How much of the machines is in use, and what is turned away.",
        "機械の使用状況と、断られたもの。",
    ),
    [Variable("model", "sekisho_requests_total"), Variable("backend", "sekisho_backend_up")],
    [
        Panel(
            "Places in use",
            (
                "Requests in the engines, of the places that the queue gives out. At 1 people begin to wait.",
                "エンジン内のリクエスト／順番待ちが配る席数。1になると待ちが始まる。",
            ),
            "percentunit",
            [Query(share("sum(sekisho_running)", _PLACES), "in use")],
            "stat",
            Limit(0.9),
            width=4,
            height=4,
        ),
        Panel(
            "Waiting now",
            ("Requests that wait for a turn.", "順番を待つリクエスト。"),
            "short",
            [Query("sum(sekisho_waiting)", "waiting")],
            "stat",
            width=4,
            height=4,
        ),
        Panel(
            "Output",
            ("Tokens generated a second, all models.", "毎秒の生成トークン数。全モデル。"),
            "suffix: tok/s",
            [Query(per_second("sekisho_tokens_total", 'kind="completion"'), "output")],
            "stat",
            width=4,
            height=4,
        ),
        Panel(
            "Turned away in an hour",
            ("Requests that the queue refused or let wait in vain.", "待ち行列が断った、または時間切れになったもの。"),
            "short",
            [Query(f"sum(increase({_REFUSALS}[1h]))", "refused")],
            "stat",
            Limit(1),
            quiet=True,
            width=4,
            height=4,
        ),
        Panel(
            "Fullest KV cache",
            (
                "Blocks that running requests hold, of all blocks; of the fullest engine. An alert comes at 90 %.",
                "実行中のリクエストが持つブロックの割合。最も埋まったエンジンの値。90%で警報。",
            ),
            "percentunit",
            [Query(f"max(sekisho_backend_kv_usage_ratio{{{_BACKEND}}})", "KV cache")],
            "stat",
            Limit(0.9),
            most=1,
            width=4,
            height=4,
        ),
        Panel(
            "Backends that take requests",
            ("Of those in the settings.", "設定されたバックエンドのうち、受け付けているもの。"),
            "short",
            [Query(f"sum(min by (backend) (sekisho_backend_up{{{_BACKEND}}}))", "up")],
            "stat",
            Limit(1, floor=True),
            width=4,
            height=4,
        ),
        Panel(
            "Running and waiting",
            (
                "Requests in the engines and in the queue, and the places that the queue gives out.",
                "エンジン内と待ち行列のリクエスト、そして席数。",
            ),
            "short",
            [
                Query("sum(sekisho_running)", "running"),
                Query("sum(sekisho_waiting)", "waiting"),
                Query(_PLACES, "places"),
            ],
        ),
        Panel(
            "Tokens",
            (
                "Booked when a request ends. cached: of the prompts, what an engine had computed before.",
                "リクエスト終了時に計上。cached は以前に計算済みだったプロンプト部分。",
            ),
            "suffix: tok/s",
            [
                Query(per_second("sekisho_tokens_total", f'kind="completion", {_MODEL}'), "output"),
                Query(per_second("sekisho_tokens_total", f'kind="prompt", {_MODEL}'), "prompt"),
                Query(per_second("sekisho_cached_tokens_total", _MODEL), "cached"),
            ],
        ),
        Panel(
            "Prompt tokens that were cached",
            (
                "Share of booked prompt tokens that an engine had computed before. Prompts that begin alike: high.",
                "計上したプロンプトのうち、計算済みだった割合。共通の前文が多いほど高い。",
            ),
            "percentunit",
            [
                Query(
                    share(
                        per_second("sekisho_cached_tokens_total", _MODEL, "model"),
                        per_second("sekisho_tokens_total", f'kind="prompt", {_MODEL}', "model"),
                    ),
                    "{{model}}",
                )
            ],
            most=1,
        ),
        Panel(
            "KV cache in use",
            (
                "Of each engine, as it tells. Near 1 requests preempt each other.",
                "エンジンごと。1に近づくとリクエストが互いを追い出す。",
            ),
            "percentunit",
            [Query(f"max by (backend) (sekisho_backend_kv_usage_ratio{{{_BACKEND}}})", "{{backend}}")],
            limit=Limit(0.9),
            most=1,
        ),
        Panel(
            "Preemptions a minute",
            (
                "Requests put back to make room, as each engine tells: their work is done twice.",
                "場所を空けるために戻されたリクエスト（エンジンの自己申告）。計算が二度になる。",
            ),
            "short",
            [
                Query(
                    f"60 * max by (backend) (rate(sekisho_backend_preemptions_total{{{_BACKEND}}}[$__rate_interval]))",
                    "{{backend}}",
                )
            ],
        ),
        Panel(
            "Requests in each backend",
            (
                "As each engine tells, other clients of it included. Few wait in one: the gateway sees to it.",
                "エンジンの自己申告。他のクライアントの分も含む。エンジン内の待ち（waits in）は通常ほぼゼロ。",
            ),
            "short",
            [
                Query(f"max by (backend) (sekisho_backend_running{{{_BACKEND}}})", "{{backend}}"),
                Query(f"max by (backend) (sekisho_backend_waiting{{{_BACKEND}}})", "waits in {{backend}}"),
            ],
        ),
        Panel(
            "Backends",
            (
                "Green while it takes requests. Why not: sekisho backends list.",
                "緑は受け付け中。理由は sekisho backends list で。",
            ),
            "short",
            [Query(f"min by (backend) (sekisho_backend_up{{{_BACKEND}}})", "{{backend}}")],
            "state-timeline",
            Limit(1, floor=True),
        ),
        Panel(
            "Turned away",
            (
                "queue_full: the line was as long as it may be. queue_timeout: waited its time without a turn.",
                "queue_full: 行列が上限。queue_timeout: 時間内に順番が来なかった。",
            ),
            "reqps",
            [
                Query(
                    per_second("sekisho_failures_total", 'code=~"queue_full|queue_timeout"', "code"),
                    "{{code}}",
                )
            ],
            quiet=True,
        ),
        Panel(
            "Attempts by their end",
            (
                "What became of requests sent to each backend. Anything but ok is a fault.",
                "各バックエンドへ送ったリクエストの結果。ok 以外は故障。",
            ),
            "reqps",
            [Query(per_second("sekisho_attempts_total", _BACKEND, "backend, result"), "{{backend}} {{result}}")],
        ),
        Panel(
            "Time in a backend, p95",
            ("From asking it to the end of its answer.", "依頼から答えの終わりまで。"),
            "s",
            [Query(quantile(0.95, "sekisho_upstream_seconds", _BACKEND, "backend"), "{{backend}}")],
        ),
        Panel(
            "The gateway's own time",
            (
                "Of a request, before an engine is asked, its wait left out. Above 10 ms the gateway is short of CPU.",
                "エンジンに依頼するまでの自身の処理時間（待ちを除く）。10ms超ならCPU不足。",
            ),
            "s",
            quantiles("sekisho_overhead_seconds"),
        ),
        Panel(
            "A round trip to Redis",
            ("Every request takes two.", "リクエストごとに2回。"),
            "s",
            quantiles("sekisho_redis_seconds"),
        ),
        Panel(
            "Held and not booked",
            (
                "Requests that hold a reservation, and those that ended unbooked: many only while Redis is away.",
                "処理中の予約と、未計上の終了リクエスト。後者が増えるのは Redis 不通時。",
            ),
            "short",
            [Query("sum(sekisho_reservations)", "reservations"), Query("sum(sekisho_unbooked)", "not booked")],
        ),
        Panel(
            "Answers of the chat",
            (
                "Being written, whether anybody reads them or not.",
                "チャットで生成中の回答。閲覧者がいないものも含む。",
            ),
            "short",
            [Query("sum(sekisho_chat_answers_running)", "answers under way")],
            quiet=True,
        ),
        Panel(
            "Batches",
            ("Lines a minute with a result, by result.", "結果が出た行（毎分）。"),
            "short",
            [
                Query(f"60 * {per_second('sekisho_batch_lines_total', by='result')}", "{{result}}"),
                Query("sum(sekisho_batches_running)", "batches under way"),
            ],
            quiet=True,
        ),
    ],
)
