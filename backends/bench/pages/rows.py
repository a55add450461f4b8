"""Which figures are told, by vLLM's names of them, in what words and order."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One that heads a group stands there where its field has a figure, and shows none."""

    field: str
    english: str
    japanese: str
    heads: bool = False


_SPREADS = (
    ("ttft", "Time to first token (ms)", "最初のトークンまでの時間"),
    ("tpot", "Time per output token after the first (ms)", "2 個目以降の出力トークンあたりの時間"),
    ("itl", "Inter-token latency (ms)", "トークン間の時間"),
    ("e2el", "End-to-end latency (ms)", "応答が終わるまでの時間"),
    ("client_queue_time", "Waiting for a place in the load generator (ms)", "負荷生成側での順番待ち"),
    ("e2el_including_client_queue", "End-to-end latency with that wait (ms)", "順番待ちを含む応答時間"),
)
_STATISTICS = (("mean", "Mean", "平均"), ("median", "Median", "中央値"), ("p95", "P95", ""), ("p99", "P99", ""))

ROWS = (
    Row("dataset_name", "Dataset", "データセット"),
    Row("max_concurrency", "Most requests at once", "同時リクエスト数の上限"),
    Row("request_rate", "Request rate asked for (req/s)", "指定した到着率"),
    Row("completed", "Successful requests", "成功したリクエスト"),
    Row("failed", "Failed requests", "失敗したリクエスト"),
    Row("duration", "Duration (s)", "計測時間"),
    Row("total_input_tokens", "Input tokens", "入力トークン"),
    Row("total_cached_tokens", "of these, cached", "うちキャッシュ済み"),
    Row("total_output_tokens", "Output tokens", "出力トークン"),
    Row("request_throughput", "Request throughput (req/s)", "リクエストのスループット"),
    Row("request_goodput", "Request goodput (req/s)", "目標を満たしたリクエストのスループット"),
    Row("good_share", "Share of requests within every limit", "目標を満たしたリクエストの割合"),
    Row("output_throughput", "Output token throughput (tok/s)", "出力トークンのスループット"),
    Row("max_output_tokens_per_s", "Peak output token throughput (tok/s)", "出力トークンの最大スループット"),
    Row("max_concurrent_requests", "Peak concurrent requests", "最大同時リクエスト数"),
    Row("total_token_throughput", "Total token throughput (tok/s)", "入出力合計のスループット"),
    Row("max_num_requests_running", "Most requests running in the server", "サーバー内で実行中の最大数"),
    Row("max_num_requests_waiting", "Most requests waiting in the server", "サーバー内で待機中の最大数"),
    Row("max_kv_cache_usage_perc", "Most of the KV cache in use (share)", "KV キャッシュの最大使用率"),
    Row("num_preemptions", "Preemptions", "中断"),
    *(
        row
        for name, english, japanese in _SPREADS
        for row in (
            Row(f"mean_{name}_ms", english, japanese, heads=True),
            *(Row(f"{key}_{name}_ms", here, there) for key, here, there in _STATISTICS),
        )
    ),
)


def shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
