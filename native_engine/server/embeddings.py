"""The path /v1/embeddings: texts or token ids in, vectors out, from the embedder's thread and back."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator

import msgspec

from backends.wire.embeddings import EmbeddingsRequest, parse_embeddings
from backends.wire.errors import InvalidRequest
from backends.wire.responses import Usage, usage_dict
from native_engine.embedder import Embedder, Job, QueueFull, Vector, shortened
from native_engine.engine import EngineStopped
from native_engine.server import traces
from native_engine.server.answers import cancelled_when_gone, failure
from native_engine.server.handlers import check_model, id_of
from native_engine.server.http import Receive, Scope, Send, read_body, send_whole, unavailable
from native_engine.server.service import EmbeddingService

_encode = msgspec.json.Encoder().encode


class Embedding:
    """One request under way. Lives in the event loop."""

    def __init__(self, embedder: Embedder, inputs: list[list[int]]) -> None:
        event_loop = asyncio.get_running_loop()
        self._embedder = embedder
        self._ended = asyncio.Event()
        self.job = Job(inputs, lambda: event_loop.call_soon_threadsafe(self._ended.set))

    @property
    def state(self) -> str:
        return self.job.state

    @property
    def usage(self) -> Usage:
        return Usage(self.job.num_tokens, 0)

    @property
    def stages(self) -> None:
        """Its inputs come in parts, each at its own time."""
        return None

    queued_at = 0.0
    preemptions = ()

    @property
    def finish_reasons(self) -> list[str]:
        return [_REASONS[self.state]]

    async def run(self) -> None:
        """Returns at its end, whichever that is."""
        try:
            self._embedder.submit(self.job)
        except (EngineStopped, QueueFull) as fault:
            raise unavailable(f"{str(fault).capitalize()}. Try again shortly.") from fault
        await self._ended.wait()

    def cancel(self) -> None:
        self._embedder.abort(self.job)


async def embeddings(service: EmbeddingService, scope: Scope, receive: Receive, send: Send) -> None:
    arrived = time.perf_counter()
    request = parse_embeddings(await read_body(receive))
    check_model(service, request.model)
    _refuse(request, service.embedder)
    inputs = await service.in_turn(sum(map(len, request.each)), lambda: _inputs(service, request))
    embedding = Embedding(service.embedder, inputs)
    request_id, asked = id_of(scope), {"gen_ai.operation.name": "embeddings"}
    traced = traces.traced(service, scope, request_id, arrived, asked, embedding)
    with traced, service.accounts.kept(request_id, embedding), cancelled_when_gone(receive, embedding):
        await embedding.run()
    service.metrics.latency.observe(time.perf_counter() - arrived)
    service.metrics.finished[_REASONS[embedding.state]] += 1
    if embedding.state == "finished":
        numbers = len(inputs) * service.embedder.encoder.dimensions
        await send_whole(send, 200, await service.in_turn(numbers, lambda: _body(request, service, embedding)))
    elif embedding.state == "failed" or service.draining:  # otherwise nobody is left to answer
        raise failure(_REASONS[embedding.state])


_REASONS = {"finished": "stop", "aborted": "abort", "failed": "error"}


def _refuse(request: EmbeddingsRequest, embedder: Embedder) -> None:
    most = embedder.encoder.dimensions
    if request.dimensions is not None and request.dimensions > most:
        raise InvalidRequest(
            f"'dimensions' is {request.dimensions}, but the vectors of this model have {most}.",
            "dimensions",
            "invalid_value",
        )
    if request.truncate_prompt_tokens is not None:
        raise InvalidRequest(
            "'truncate_prompt_tokens' is not supported by this engine: it cuts no input.",
            "truncate_prompt_tokens",
            "unsupported_parameter",
        )


def _inputs(service: EmbeddingService, request: EmbeddingsRequest) -> list[list[int]]:
    """Token ids are taken as they are, special ones included; texts get those that the model expects."""
    limit, size = service.info.max_model_len, service.texts.vocab_size
    found = []
    for index, each in enumerate(request.each):
        tokens = service.texts.encode(each) if isinstance(each, str) else each
        if not 0 < len(tokens) <= limit:
            raise InvalidRequest(
                f"This model's maximum context length is {limit} tokens. However, input {index} has {len(tokens)} "
                "tokens. Please split it: no input is cut.",
                "input",
                "context_length_exceeded",
            )
        if max(tokens) >= size:
            raise InvalidRequest(
                f"Input {index} holds the token id {max(tokens)}, but this model knows {size} tokens.",
                "input",
                "invalid_value",
            )
        found.append(tokens)
    return found


def _body(request: EmbeddingsRequest, service: EmbeddingService, embedding: Embedding) -> bytes:
    """Encoded vector by vector: one call for all of them would hold up the event loop from any thread."""
    encoder = service.embedder.encoder
    vectors = (shortened(vector, request.dimensions, encoder) for vector in embedding.job.vectors)
    data = b",".join(_entries(vectors, packed=request.encoding_format == "base64"))
    usage = {name: count for name, count in usage_dict(embedding.usage).items() if name in _COUNTS}
    tail = {"model": request.model, "usage": usage}
    return b'{"object":"list","data":[' + data + b"]," + _encode(tail)[1:]


_COUNTS = ("prompt_tokens", "total_tokens")


def _entries(vectors: Iterator[Vector], *, packed: bool) -> Iterator[bytes]:
    for index, vector in enumerate(vectors):
        made = base64.b64encode(vector.astype("<f4").tobytes()).decode() if packed else vector.tolist()
        yield _encode({"object": "embedding", "index": index, "embedding": made})
