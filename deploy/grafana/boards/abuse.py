"""Who should not get in, and who takes too much. Figures of single people are in `sekisho usage`, not here."""

from __future__ import annotations

from deploy.grafana.boards.queries import per_second
from deploy.grafana.panels import Board, Limit, Panel, Query

_GUESSES = 'reason=~"malformed|unknown_key|token|throttled"'

ABUSE = Board(
    "abuse",
    "Sekisho: limits and abuse",
    (
        "Refused credentials, limits that are reached, budgets near their end. For names see sekisho usage.",
        "拒否された資格情報、達した上限、終わりに近い予算。個人名は sekisho usage で見る。",
    ),
    [],
    [
        Panel(
            "Bad credentials in an hour",
            ("Keys and tokens that were never good, or wildly formed.", "存在しないキー、不正なトークン。"),
            "short",
            [Query(f"sum(increase(sekisho_auth_failures_total{{{_GUESSES}}}[1h]))", "bad")],
            "stat",
            Limit(1000),
            quiet=True,
            width=6,
            height=4,
        ),
        Panel(
            "Over a limit in an hour",
            ("Requests that a policy refused.", "ポリシーが断ったリクエスト。"),
            "short",
            [Query("sum(increase(sekisho_quota_refusals_total[1h]))", "refused")],
            "stat",
            quiet=True,
            width=6,
            height=4,
        ),
        Panel(
            "Budgets near their end",
            (
                "Of people, programs or groups that have used 90 % of a day's or month's limit.",
                "日または月の上限の90%を使った人・プログラム・グループの数。",
            ),
            "short",
            [Query("sum(max by (policy, limit) (sekisho_quota_near_end))", "near")],
            "stat",
            Limit(1),
            quiet=True,
            width=6,
            height=4,
        ),
        Panel(
            "Answers that nobody waited for",
            (
                "Share of requests for a model in an hour whose client left: often a program with too short a timeout.",
                "1時間にクライアントが離れた生成リクエストの割合。タイムアウトの短いプログラムに多い。",
            ),
            "percentunit",
            [
                Query(
                    'sum(increase(sekisho_requests_total{status="499"}[1h]))'
                    ' / (sum(increase(sekisho_requests_total{model!=""}[1h])) > 0)',
                    "left",
                )
            ],
            "stat",
            Limit(0.2),
            quiet=True,
            width=6,
            height=4,
        ),
        Panel(
            "Refused credentials by reason",
            (
                "missing: none was sent. unknown_key, malformed, token: guesses, or a key that is gone.",
                "missing: 資格情報なし。unknown_key・malformed・token: 推測、または削除済みのキー。",
            ),
            "reqps",
            [Query(per_second("sekisho_auth_failures_total", by="reason"), "{{reason}}")],
            stacked=True,
            quiet=True,
        ),
        Panel(
            "Over a limit, by limit",
            (
                "By the limit's name. Many at requests_per_minute: a program in a loop.",
                "上限の名前別。requests_per_minute が多いなら、ループするプログラム。",
            ),
            "reqps",
            [Query(per_second("sekisho_quota_refusals_total", by="limit"), "{{limit}}")],
            stacked=True,
            quiet=True,
        ),
        Panel(
            "Used of each policy's days and months",
            (
                "Of whoever used most. 1: the next request is refused. Of those who asked since the gateway started.",
                "最も使った人の値。1で次のリクエストは断られる。ゲートウェイ起動後に依頼した人が対象。",
            ),
            "percentunit",
            [Query("max by (policy, limit) (sekisho_quota_used_ratio)", "{{policy}} {{limit}}")],
            "bargauge",
            Limit(0.9),
            quiet=True,
            most=1,
        ),
        Panel(
            "How many are near the end of a budget",
            (
                "By policy and limit. Many of one policy: the limit is too low, or the month too long.",
                "ポリシーと上限別。一つに集中するなら上限が低すぎる。",
            ),
            "short",
            [Query("max by (policy, limit) (sekisho_quota_near_end)", "{{policy}} {{limit}}")],
            quiet=True,
        ),
        Panel(
            "Requests by class",
            (
                "interactive: people. api: programs. batch: work without haste.",
                "interactive: 人。api: プログラム。batch: 急がない処理。",
            ),
            "reqps",
            [Query(per_second("sekisho_requests_total", 'class!=""', "class"), "{{class}}")],
            stacked=True,
        ),
        Panel(
            "Refused requests by route",
            (
                "Statuses 400 to 498. 401 and 403 on /admin: somebody tries doors.",
                "400〜498。/admin の401・403は侵入の試み。",
            ),
            "reqps",
            [
                Query(
                    per_second("sekisho_requests_total", 'status=~"4..", status!="499"', "route, status"),
                    "{{status}} {{route}}",
                )
            ],
            quiet=True,
        ),
        Panel(
            "Requests for models that nobody serves",
            (
                "Programs with an old name in their settings, or somebody who looks around.",
                "設定が古いプログラム、または探索。",
            ),
            "reqps",
            [Query(per_second("sekisho_requests_total", 'model="other"'), "requests")],
            quiet=True,
        ),
        Panel(
            "Identity providers that do not answer",
            (
                "1 while one does not answer: people cannot sign in, which looks like an attack and is none.",
                "1 は応答なし。サインインできない。",
            ),
            "short",
            [Query("max by (issuer) (sekisho_identity_provider_away)", "{{issuer}}")],
            quiet=True,
            most=1,
        ),
    ],
)
