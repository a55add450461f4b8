"""A server's Prometheus text to its Load, by the names that it gives its figures. Knows no transport."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from backends.base import Load

# Several series of one name are several ranks or replicas behind one port.
Series = Mapping[str, Sequence[float]]

_VLLM_CACHE = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'\b(num_gpu_blocks|block_size)="(\d+)"')
# Beside the whole, SGLang tells each gauge for each priority.
_PART = re.compile(r'\bpriority="[^"]')


def load_of(metrics: bytes) -> Load:
    """What the metrics tell; an empty Load where they are those of no engine that is known here."""
    text = metrics.decode("utf-8", "replace")
    series = parse(text)
    if "sekisho_engine_num_requests_running" in series:
        return _native(series)
    if "vllm:num_requests_running" in series:
        return _vllm(series, text)
    if "sglang:num_running_reqs" in series:
        return _sglang(series)
    if "sekisho_running" in series:
        return Load(_sum(series, "sekisho_running"), _sum(series, "sekisho_waiting"))
    # llama.cpp, whose newer builds say nothing of their cache, or none of these.
    return Load(
        running=_sum(series, "llamacpp:requests_processing"),
        waiting=_sum(series, "llamacpp:requests_deferred"),
        kv_use=_mean(series, "llamacpp:kv_cache_usage_ratio"),
    )


def parse(text: str) -> Series:
    """{name: value of each of its series}, labels dropped."""
    series: dict[str, list[float]] = {}
    for line in text.splitlines():
        if line.startswith("#") or " " not in line or _PART.search(line):
            continue
        name, _, text = line.rpartition(" ")
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value):  # NaN: not known now
            series.setdefault(name.partition("{")[0], []).append(value)
    return series


def _native(series: Series) -> Load:
    return Load(
        running=_sum(series, "sekisho_engine_num_requests_running"),
        waiting=_sum(series, "sekisho_engine_num_requests_waiting"),
        kv_use=_mean(series, "sekisho_engine_kv_cache_usage_perc"),
        kv_blocks_total=_sum(series, "sekisho_engine_kv_cache_blocks"),
        kv_blocks_free=_sum(series, "sekisho_engine_kv_cache_free_blocks"),
        block_size=_first(series, "sekisho_engine_kv_cache_block_size"),
        preempted=_sum(series, "sekisho_engine_num_requests_preempted"),
        preemptions=_sum(series, "sekisho_engine_num_preemptions_total"),
    )


def _vllm(series: Series, text: str) -> Load:
    """The blocks are labels there, and how many are free has to be computed."""
    use = _mean(series, "vllm:kv_cache_usage_perc")
    if use is None:
        use = _mean(series, "vllm:gpu_cache_usage_perc")  # its older name
    caches = [dict(_LABEL.findall(labels)) for labels in _VLLM_CACHE.findall(text)]
    total = sum(int(cache.get("num_gpu_blocks", 0)) for cache in caches)
    known = bool(total) and use is not None
    return Load(
        running=_sum(series, "vllm:num_requests_running"),
        waiting=_sum(series, "vllm:num_requests_waiting"),
        kv_use=use,
        kv_blocks_total=total or None,
        kv_blocks_free=round(total * (1 - (use or 0))) if known else None,
        block_size=int(caches[0]["block_size"]) if caches and "block_size" in caches[0] else None,
        preemptions=_sum(series, "vllm:num_preemptions_total"),
    )


def _sglang(series: Series) -> Load:
    """Counts tokens, of which those without a reader are free as soon as somebody needs them."""
    page = _first(series, "sglang:page_size") or 1
    idle = [_sum(series, f"sglang:kv_{kind}_tokens") for kind in ("available", "evictable")]
    used = _sum(series, "sglang:kv_used_tokens")
    free = None if None in idle else sum(filter(None, idle))
    return Load(
        running=_sum(series, "sglang:num_running_reqs"),
        waiting=_sum(series, "sglang:num_queue_reqs"),
        kv_use=_mean(series, "sglang:token_usage"),
        kv_blocks_total=None if free is None or used is None else (free + used) // page,
        kv_blocks_free=None if free is None else free // page,
        block_size=page,
        preemptions=_sum(series, "sglang:num_retracted_requests_total"),
    )


def _sum(series: Series, name: str) -> int | None:
    return int(sum(series[name])) if name in series else None


def _mean(series: Series, name: str) -> float | None:
    return sum(series[name]) / len(series[name]) if name in series else None


def _first(series: Series, name: str) -> int | None:
    return int(series[name][0]) if name in series else None
