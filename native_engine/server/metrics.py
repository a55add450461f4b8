"""What the server counts and times, as Prometheus text. Names and buckets follow vLLM's, with finer buckets below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backends.edges import FIRST_TOKEN, INTER_TOKEN, LATENCY
from backends.wire.responses import Usage
from native_engine.embedder import EmbedderStats
from native_engine.engine import Stats
from native_engine.histogram import Histogram
from native_engine.request import Stages
from native_engine.work import Work

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Written in the event loop only."""

    def __init__(self) -> None:
        self.first_token = Histogram(FIRST_TOKEN)
        self.inter_token = Histogram(INTER_TOKEN)
        self.latency = Histogram(LATENCY)
        self.stages = {stage: Histogram(LATENCY) for stage in Stages._fields}
        self.finished = Counter({"stop": 0, "length": 0, "abort": 0, "error": 0})
        self.accounted = Counter({"prompt": 0, "cached": 0, "completion": 0})

    def account(self, usage: Usage) -> None:
        """Of a request that has ended: the sum of all accounts, which a ledger can be held against."""
        self.accounted["prompt"] += usage.prompt_tokens
        self.accounted["cached"] += usage.cached_tokens
        self.accounted["completion"] += usage.completion_tokens

    def spend(self, stages: Stages) -> None:
        """Of a sequence that has ended."""
        for histogram, seconds in zip(self.stages.values(), stages, strict=True):
            if seconds is not None:
                histogram.observe(seconds)

    def render(self, model: str, stats: Stats | EmbedderStats) -> bytes:
        labels = 'model_name="' + model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        own = _embedder_values(stats) if isinstance(stats, EmbedderStats) else _engine_values(stats)
        lines = [*_plain_lines(labels, own)]
        lines.append("# TYPE sekisho_engine_request_success_total counter")
        for reason, count in self.finished.items():
            lines.append(f'sekisho_engine_request_success_total{{{labels},finished_reason="{reason}"}} {count}')
        for kind, tokens in self.accounted.items():
            lines.append(f"# TYPE sekisho_engine_accounted_{kind}_tokens_total counter")
            lines.append(f"sekisho_engine_accounted_{kind}_tokens_total{{{labels}}} {tokens}")
        lines += stats.step_times.lines("sekisho_engine_step_seconds", labels)
        lines += stats.step_tokens.lines("sekisho_engine_step_tokens", labels)
        if isinstance(stats, Stats):
            lines += stats.step_decodes.lines("sekisho_engine_step_decodes", labels)
            lines += self.first_token.lines("sekisho_engine_time_to_first_token_seconds", labels)
            lines += self.inter_token.lines("sekisho_engine_inter_token_latency_seconds", labels)
            for stage, histogram in self.stages.items():
                lines += histogram.lines(f"sekisho_engine_request_{stage}_time_seconds", labels)
        lines += self.latency.lines("sekisho_engine_e2e_request_latency_seconds", labels)
        return ("\n".join(lines) + "\n").encode()


_Value = tuple[str, str, float]


def _engine_values(stats: Stats) -> tuple[_Value, ...]:
    return (
        ("num_requests_running", "gauge", stats.running),
        ("num_requests_waiting", "gauge", stats.waiting),
        ("kv_cache_usage_perc", "gauge", stats.kv_blocks_used / max(stats.kv_blocks_total, 1)),
        ("kv_cache_blocks", "gauge", stats.kv_blocks_total),
        ("kv_cache_free_blocks", "gauge", stats.kv_blocks_total - stats.kv_blocks_used),
        ("kv_cache_block_size", "gauge", stats.kv_block_size),
        ("kv_offload_blocks", "gauge", stats.host_blocks_total),
        ("kv_offload_used_blocks", "gauge", stats.host_blocks_used),
        ("kv_offload_stored_blocks_total", "counter", stats.host_blocks_kept),
        ("kv_offload_loaded_blocks_total", "counter", stats.host_blocks_fetched),
        ("num_requests_preempted", "gauge", stats.preempted),
        ("num_preemptions_total", "counter", stats.preemptions_total),
        ("prompt_tokens_total", "counter", stats.prompt_tokens_total),
        ("generation_tokens_total", "counter", stats.generation_tokens_total),
        ("prefix_cache_queries_total", "counter", stats.prefix_cache_queries),
        ("prefix_cache_hits_total", "counter", stats.prefix_cache_hits),
        ("spec_decode_num_draft_tokens_total", "counter", stats.draft_tokens),
        ("spec_decode_num_accepted_tokens_total", "counter", stats.accepted_tokens),
        ("steps_total", "counter", stats.steps),
        *_work_values(stats.work),
    )


def _work_values(work: Work | None) -> tuple[_Value, ...]:
    if work is None:
        return ()
    return (
        ("estimated_flops_total", "counter", work.flops),
        ("estimated_read_bytes_total", "counter", work.read_bytes),
    )


def _embedder_values(stats: EmbedderStats) -> tuple[_Value, ...]:
    return (
        ("num_requests_running", "gauge", stats.running),
        ("num_requests_waiting", "gauge", stats.waiting),
        ("inputs_total", "counter", stats.inputs_total),
        ("prompt_tokens_total", "counter", stats.tokens_total),
        ("steps_total", "counter", stats.steps),
    )


def _plain_lines(labels: str, values: tuple[_Value, ...]) -> Iterator[str]:
    for name, kind, value in values:
        yield f"# TYPE sekisho_engine_{name} {kind}"
        yield f"sekisho_engine_{name}{{{labels}}} {value}"
