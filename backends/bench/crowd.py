"""The fifth hypothesis: what became of twice as many as the limit, and of the engine. Sends nothing itself."""

from __future__ import annotations

import re
from typing import NamedTuple

from backends.bench.client import Sample
from backends.bench.hypotheses import Verdict
from backends.bench.report import Report
from backends.bench.watch import ServerLog
from backends.bench.witness import Memory, Witness

# What a server may say to one request too many: wait and try again.
_REFUSED = re.compile(r"(429|503)\b")
_MIB = 2**20


class _Ends(NamedTuple):
    """How the requests ended. told_when: of those refused, those that were told when to try again (Retry-After)."""

    answered: int
    refused: int
    told_when: int
    lost: list[str]


def survives(crowd: Report, after: Report | None, limit: int, engine: Witness) -> Verdict:
    """5: `crowd` are twice the limit at once; `after` is one request later, None where it could not be sent.

    It fails where a request is lost, nobody is answered, or the engine is gone or started anew. Where all of them ran
    at once and nobody waited, the engine's limit is another one, and nothing was shown.
    """
    ends = _ends_of(crowd.samples)
    alive = after is not None and after.completed > 0 and not after.failed
    log = crowd.server if engine.log is None else engine.log
    waited = _most_waiting(crowd.server, log)
    figures = {
        "limit": limit,
        "answered": ends.answered,
        "refused": ends.refused,
        "refused_with_retry_after": ends.told_when,
        "lost": len(ends.lost),
        "alive": alive,
        "process_ended": engine.ended,
        "ttft_p95_ms": crowd.spreads["ttft"].p95,
        **_seen(log, waited, engine.memory),
    }
    said = f"{_told(ends, limit, alive, engine.ended)}. {_looked(log, waited, engine.memory)}"
    if ends.lost or not alive or not ends.answered or engine.ended:
        return Verdict(5, "fails", said, figures)
    if log.most().get("num_requests_running", 0) > limit and not ends.refused and not waited:
        said += f" Nobody waited: {limit} is not its limit. Give --limit as the engine was started (--max-num-seqs)"
        return Verdict(5, "not run", said, figures)
    return Verdict(5, "holds", said, figures)


def _ends_of(samples: tuple[Sample, ...]) -> _Ends:
    failed = [sample for sample in samples if sample.error]
    refused = [sample for sample in failed if _REFUSED.match(sample.error)]
    lost = [sample.error for sample in failed if not _REFUSED.match(sample.error)]
    told_when = sum(bool(sample.retry_after) for sample in refused)
    return _Ends(len(samples) - len(failed), len(refused), told_when, lost)


def _told(ends: _Ends, limit: int, alive: bool, ended: bool) -> str:
    refused = f"{ends.refused} refused" + (f" ({ends.told_when} with Retry-After)" if ends.refused else "")
    said = f"of {2 * limit} at once {ends.answered} were answered, {refused}, {len(ends.lost)} lost"
    said += ", and it answers afterwards" if alive else "; afterwards it does not answer"
    if ended:
        said += ", but its process ended: it was started anew"
    return f"{said}: {ends.lost[0]}" if ends.lost else said


def _most_waiting(door: ServerLog, engine: ServerLog) -> float | None:
    """The most that waited: at the engine, and at the server that was asked, which may be the same; None: not seen."""
    seen = [log.most()["num_requests_waiting"] for log in (door, engine) if "num_requests_waiting" in log.most()]
    return max(seen, default=None)


def _looked(log: ServerLog, waited: float | None, memory: Memory) -> str:
    """What was seen, and what was not and why."""
    most = log.most()
    running, kv, preempted = (
        most.get(name) for name in ("num_requests_running", "kv_cache_usage_perc", "num_preemptions")
    )
    figures = [
        f"running at the most {_or_not_seen(running)}",
        f"waiting at the most {_or_not_seen(waited)}",
        "KV cache " + ("not seen" if kv is None else f"up to {kv:.1%}"),
        f"preemptions {_or_not_seen(preempted)}",
    ]
    why = f" ({log.absent})" if log.absent else ""
    return f"Seen of the engine: {', '.join(figures)}{why}; memory {_memory(memory)}."


def _or_not_seen(count: float | None) -> str:
    return "not seen" if count is None else f"{count:.0f}"


def _memory(memory: Memory) -> str:
    if memory.absent:
        return f"not seen ({memory.absent})"
    before, most, after = (size / _MIB for size in memory[:3])
    return f"{before:.0f} MiB before, {most:.0f} at the most, {after:.0f} afterwards"


def _seen(log: ServerLog, waited: float | None, memory: Memory) -> dict[str, object]:
    """For programs; None where it was not seen."""
    most = log.most()
    sizes = memory[:3] if not memory.absent else (None, None, None)
    return {
        "most_running": most.get("num_requests_running"),
        "most_waiting": waited,
        "most_kv_use": most.get("kv_cache_usage_perc"),
        "preemptions": most.get("num_preemptions"),
        **dict(zip(("memory_before", "memory_most", "memory_after"), sizes, strict=True)),
    }
