"""Inside the native engine: steps, blocks, stages of a request. For engines that Prometheus reaches by a port."""

from __future__ import annotations

from deploy.grafana.boards.queries import per_second, quantile, quantiles, share
from deploy.grafana.panels import Board, Limit, Panel, Query, Variable

_WHICH = 'model_name=~"$model_name", instance=~"$instance"'


def _now(name: str) -> str:
    return f"sum(sekisho_engine_{name}{{{_WHICH}}})"


def _rate(name: str) -> str:
    return per_second(f"sekisho_engine_{name}", _WHICH)


def _mean(name: str) -> str:
    return share(_rate(f"{name}_sum"), _rate(f"{name}_count"))


ENGINE = Board(
    "engine",
    "Sekisho: native engine",
    (
        "What engines do in their steps: those that listen on a port. `sekisho up` gives its own a Unix socket.",
        "エンジンのステップの中身。ポートで待ち受けるものが対象（`sekisho up` のものは Unix ソケット）。",
    ),
    [Variable("model_name", "sekisho_engine_steps_total"), Variable("instance", "sekisho_engine_steps_total")],
    [
        Panel(
            "Requests in the engine",
            (
                "running: in steps. waiting: all others. preempted: of these, those put back after they ran.",
                "running: 実行中。waiting: 待機（preempted を含む）。preempted: 実行後に戻されたもの。",
            ),
            "short",
            [
                Query(_now("num_requests_running"), "running"),
                Query(_now("num_requests_waiting"), "waiting"),
                Query(_now("num_requests_preempted"), "preempted"),
            ],
        ),
        Panel(
            "Preemptions a minute",
            (
                "Requests put back to make room: their work is done twice. If it lasts, lower --max-num-seqs.",
                "場所を空けるために戻されたリクエスト。計算が二度になる。続くなら --max-num-seqs を下げる。",
            ),
            "short",
            [Query(f"60 * {_rate('num_preemptions_total')}", "preempted")],
        ),
        Panel(
            "KV cache in use",
            ("Blocks that requests hold, of all.", "リクエストが持つブロックの割合。"),
            "percentunit",
            [Query(f"max by (instance) (sekisho_engine_kv_cache_usage_perc{{{_WHICH}}})", "{{instance}}")],
            limit=Limit(0.9),
            most=1,
        ),
        Panel(
            "Prompt tokens found in the prefix cache",
            (
                "Share of prompt tokens whose keys and values were there already. RAG prompts that begin alike: high.",
                "すでに計算済みだったプロンプトトークンの割合。共通の前文が多いほど高い。",
            ),
            "percentunit",
            [Query(share(_rate("prefix_cache_hits_total"), _rate("prefix_cache_queries_total")), "cached")],
            most=1,
        ),
        Panel(
            "Tokens",
            ("Computed a second.", "毎秒の計算トークン数。"),
            "suffix: tok/s",
            [Query(_rate("generation_tokens_total"), "output"), Query(_rate("prompt_tokens_total"), "prompt")],
        ),
        Panel(
            "Time of a step",
            (
                "While people read, each of their tokens takes one step: 50 ms is 20 tokens a second.",
                "1ステップで各人に1トークン。50msで毎秒20トークン。",
            ),
            "s",
            quantiles("sekisho_engine_step_seconds", _WHICH, ("p50", "p95", "p99")),
            limit=Limit(0.05),
        ),
        Panel(
            "Answers and tokens of a step",
            (
                "Means. Answers in one step share its reading of the weights; tokens beyond them are prompts.",
                "平均。一つのステップで進む答えは重みの読み出しを共有する。残りはプロンプト。",
            ),
            "short",
            [Query(_mean("step_decodes"), "answers"), Query(_mean("step_tokens"), "tokens")],
        ),
        Panel(
            "Stages of a request, p95",
            (
                "queue: until it first ran. prefill: until its first token. decode: until its last.",
                "queue: 初めて実行されるまで。prefill: 最初のトークンまで。decode: 最後のトークンまで。",
            ),
            "s",
            [
                Query(quantile(0.95, f"sekisho_engine_request_{stage}_time_seconds", _WHICH), stage)
                for stage in ("queue", "prefill", "decode")
            ],
        ),
        Panel(
            "Time to the first token",
            ("In the engine alone, without the gateway's queue.", "エンジン内のみ。ゲートウェイの待ちは含まない。"),
            "s",
            quantiles("sekisho_engine_time_to_first_token_seconds", _WHICH),
            limit=Limit(2),
        ),
        Panel(
            "Between two tokens",
            (
                "Of one answer. p99 far above p50: long prompts hold up answers (--target-tpot).",
                "一つの答えのトークン間隔。p99がp50よりはるかに大きいなら、長いプロンプトが妨げている（--target-tpot）。",
            ),
            "s",
            quantiles("sekisho_engine_inter_token_latency_seconds", _WHICH, ("p50", "p95", "p99")),
            limit=Limit(0.05),
        ),
        Panel(
            "Operations",
            (
                "Floating point operations a second, by the model's shape; over the machine's peak: the utilisation.",
                "モデルの形から計算した毎秒の浮動小数点演算。機械の最大値で割ると利用率。",
            ),
            "flops",
            [Query(_rate("estimated_flops_total"), "operations")],
        ),
        Panel(
            "Bytes read",
            (
                "Weights and KV cache read a second, by the model's shape; over its bandwidth: the utilisation.",
                "重みとKVキャッシュの読み出し（モデルの形から計算）。帯域で割ると利用率。",
            ),
            "Bps",
            [Query(_rate("estimated_read_bytes_total"), "read")],
        ),
        Panel(
            "Guesses that held",
            (
                "Of tokens guessed ahead (--num-speculative-tokens). Low: guessing costs more than it saves.",
                "先読みしたトークンのうち当たった割合。低いなら先読みは損。",
            ),
            "percentunit",
            [
                Query(
                    share(_rate("spec_decode_num_accepted_tokens_total"), _rate("spec_decode_num_draft_tokens_total")),
                    "held",
                )
            ],
            most=1,
            quiet=True,
        ),
        Panel(
            "Host tier",
            (
                "Blocks moved a second to host memory and back (--kv-offload-memory).",
                "ホストメモリへ移した、戻したブロック（毎秒）。",
            ),
            "short",
            [
                Query(_rate("kv_offload_stored_blocks_total"), "stored"),
                Query(_rate("kv_offload_loaded_blocks_total"), "loaded"),
            ],
        ),
        Panel(
            "Requests by their end",
            (
                "stop: by itself. length: at its limit. abort: the client left. error: look into the engine's log.",
                "stop: 自然に終了。length: 上限。abort: 離脱。error: エンジンのログを見る。",
            ),
            "reqps",
            [
                Query(
                    per_second("sekisho_engine_request_success_total", _WHICH, "finished_reason"),
                    "{{finished_reason}}",
                )
            ],
            stacked=True,
            width=24,
        ),
    ],
)
