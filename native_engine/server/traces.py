"""What a trace says of a request in the engine: a span of it, within the caller's trace, and one of each stage.

Told when the request has ended, by the times that it kept. vLLM's names where it has them; never text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as ListLike
from contextlib import contextmanager
from typing import Protocol

from backends.telemetry.spans import Attributes, Span, Value, traceparent_of
from backends.wire.responses import Usage
from backends.wire.schema import ChatRequest, CompletionRequest
from native_engine.request import Preemption, Stages
from native_engine.server.http import Scope, header
from native_engine.server.service import BaseService

SERVICE = "sekisho-engine"
_ENDS = {"aborted": "cancelled", "failed": "engine_error"}


class Ended(Protocol):
    """A request, after its end."""

    @property
    def state(self) -> str: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def finish_reasons(self) -> ListLike[str]: ...

    @property
    def stages(self) -> Stages | None: ...

    @property
    def queued_at(self) -> float:
        """Monotonic seconds; asked only where there are stages."""
        ...

    @property
    def preemptions(self) -> ListLike[Preemption]: ...


def caller_of(scope: Scope) -> str:
    """The traceparent that it came with. Whoever reaches this server is believed."""
    return traceparent_of((header(scope, b"traceparent") or "").encode("latin-1"))


@contextmanager
def traced(
    service: BaseService, scope: Scope, request_id: str, arrived: float, asked: Attributes, ended: Ended
) -> Iterator[None]:
    """Around the answer; when the block ends, `ended` has. `arrived`: by `time.perf_counter`."""
    try:
        yield
    finally:
        if service.tracing is not None:
            now, seconds = time.time_ns(), time.perf_counter() - arrived
            span = service.tracing.begin("llm_request", "server", caller_of(scope), now - _ns(seconds))
            if span.recording:
                span.set({**_names(service, request_id), **asked, **_told(ended), "gen_ai.latency.e2e": seconds})
                if (stages := ended.stages) is not None:
                    _tell_stages(span, ended, stages, now)
                if (fault := _ENDS.get(ended.state)) is not None:
                    span.fail(fault, ours=ended.state == "failed")
            span.end(now)


def asked_of(request: ChatRequest | CompletionRequest) -> Attributes:
    """The parameters that it gave."""
    named = {
        "operation.name": "chat" if isinstance(request, ChatRequest) else "text_completion",
        "request.max_tokens": request.output_limit,
        "request.temperature": request.temperature,
        "request.top_p": request.top_p,
        "request.n": request.n,
    }
    return {f"gen_ai.{name}": value for name, value in named.items() if value is not None}


def _names(service: BaseService, request_id: str) -> Attributes:
    model = service.info.name
    return {
        "gen_ai.provider.name": "sekisho",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.request.id": request_id,
        "sekisho.request_id": request_id,
    }


def _told(ended: Ended) -> Attributes:
    usage = ended.usage
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.response.finish_reasons": ended.finish_reasons,
    }


def _tell_stages(span: Span, ended: Ended, stages: Stages, now: int) -> None:
    """`now`: nanoseconds since the epoch, as of the monotonic clock's time now."""
    offset = now - time.monotonic_ns()
    latency: dict[str, Value] = {"gen_ai.latency.time_in_queue": stages.queue}
    began = offset + _ns(ended.queued_at)
    for name, seconds in zip(Stages._fields, stages, strict=True):
        if seconds is None:
            break
        span.child(name, began_ns=began).end(began := began + _ns(seconds))
    if stages.prefill is not None:
        latency["gen_ai.latency.time_in_model_prefill"] = stages.prefill
        latency["gen_ai.latency.time_in_model_inference"] = stages.prefill + (stages.decode or 0.0)
    if stages.prefill is not None and stages.decode is not None:
        latency["gen_ai.latency.time_to_first_token"] = stages.queue + stages.prefill
        latency["gen_ai.latency.time_in_model_decode"] = stages.decode
    span.set(latency)
    for preemption in ended.preemptions:
        lost = {"sekisho.tokens_to_recompute": preemption.num_tokens}
        span.event("preempted", lost, offset + _ns(preemption.at))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
