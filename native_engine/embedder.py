"""Inputs to vectors in batches, and the thread that computes one after another. Free of torch; knows no text, no HTTP.

Every accepted job ends in exactly one call of its `on_end`, whatever happens to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from native_engine.config import EngineConfig
from native_engine.engine import EngineStopped
from native_engine.histogram import Histogram

logger = logging.getLogger(__name__)

MAX_QUEUED_INPUTS = 8 * 2048  # eight of the largest requests
_STEP_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STEP_TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

Vector = npt.NDArray[np.float32]
State = Literal["waiting", "running", "finished", "aborted", "failed"]


class Encoder(Protocol):
    """What computes. It keeps nothing of an input between two batches."""

    max_model_len: int
    dimensions: int
    normalizes: bool

    def encode(self, inputs: list[list[int]]) -> Vector:
        """[inputs, dimensions]"""
        ...


def shortened(vectors: Vector, dimensions: int | None, encoder: Encoder) -> Vector:
    """The first `dimensions` numbers of each of vectors [..., n], of length 1 again where the model's vectors are."""
    if dimensions in (None, vectors.shape[-1]):
        return vectors
    cut = vectors[..., :dimensions]
    return cut / np.maximum(np.linalg.norm(cut, axis=-1, keepdims=True), 1e-12) if encoder.normalizes else cut


class QueueFull(RuntimeError):
    """More inputs wait than the engine keeps."""


class Job:
    """The inputs of one request; their vectors as they come, in the inputs' order."""

    def __init__(self, inputs: list[list[int]], on_end: Callable[[], object]) -> None:
        """`on_end` is called in the embedder's thread."""
        self.inputs = inputs
        self.on_end = on_end
        self.vectors: list[Vector] = []
        self.num_begun = 0
        self.state: State = "waiting"

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "running")

    @property
    def num_tokens(self) -> int:
        """Of the inputs that were computed, or are being."""
        return sum(map(len, self.inputs[: self.num_begun]))

    def take(self, vector: Vector) -> None:
        if self.ended:
            return
        self.vectors.append(vector)
        if not np.isfinite(vector).all():
            self.state = "failed"
        elif len(self.vectors) == len(self.inputs):
            self.state = "finished"


class Turns:
    """Whose inputs are in the next batch: jobs in turns, so that a small one does not wait for a large one."""

    def __init__(self, max_tokens: int, max_inputs: int) -> None:
        self._max_tokens, self._max_inputs = max_tokens, max_inputs
        self._jobs: deque[Job] = deque()

    @property
    def num_inputs(self) -> int:
        return sum(len(job.inputs) - job.num_begun for job in self._jobs)

    def add(self, job: Job) -> None:
        self._jobs.append(job)

    def drop(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)

    def take(self) -> list[tuple[Job, list[int]]]:
        """Inputs with their owners. One is taken however long it is."""
        batch: list[tuple[Job, list[int]]] = []
        tokens = 0
        while self._jobs and len(batch) < self._max_inputs:
            job = self._jobs[0]
            each = job.inputs[job.num_begun]
            tokens += len(each)
            if batch and tokens > self._max_tokens:
                break
            self._jobs.popleft()
            batch.append((job, each))
            job.num_begun += 1
            job.state = "running"
            if job.num_begun < len(job.inputs):
                self._jobs.append(job)
        return batch


def embed(
    encoder: Encoder, config: EngineConfig, inputs: list[list[int]], on_vector: Callable[[], object] = lambda: None
) -> Vector:
    """All inputs at once, in this thread: [inputs, dimensions]. Raises ValueError where a vector is not of numbers."""
    turns, job = Turns(config.max_num_batched_tokens, config.max_num_seqs), Job(inputs, lambda: None)
    turns.add(job)
    while batch := turns.take():
        for vector in encoder.encode([each for _, each in batch]):
            job.take(vector)
            on_vector()
    if job.state != "finished":
        raise ValueError("the model's arithmetic gave something other than numbers")
    return np.stack(job.vectors)


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """At one moment; the totals only grow. Requests are waiting until an input of theirs has been computed."""

    waiting: int
    running: int
    inputs_total: int
    tokens_total: int
    steps: int
    step_times: Histogram
    step_tokens: Histogram


class Embedder:
    """The thread that owns an encoder. All methods may be called from any thread."""

    def __init__(self, encoder: Encoder, config: EngineConfig) -> None:
        self.encoder = encoder
        self._turns = Turns(config.max_num_batched_tokens, config.max_num_seqs)
        self._open: set[Job] = set()
        self._wake = threading.Condition()
        self._closing = False
        self._steps = self._inputs = self._tokens = 0
        self._step_times, self._step_tokens = Histogram(_STEP_SECONDS), Histogram(_STEP_TOKENS)
        self._thread = threading.Thread(target=self._run, name="embedder", daemon=True)

    @property
    def is_running(self) -> bool:
        """True while new jobs are taken."""
        return self._thread.is_alive() and not self._closing

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Raises EngineStopped when it is too late, QueueFull when too much waits already."""
        with self._wake:
            if not self.is_running:
                raise EngineStopped("the engine is shutting down and takes no more requests")
            waiting = self._turns.num_inputs
            if waiting and waiting + len(job.inputs) > MAX_QUEUED_INPUTS:
                raise QueueFull(f"{waiting} inputs are waiting, and at most {MAX_QUEUED_INPUTS} may")
            self._open.add(job)
            self._turns.add(job)
            self._wake.notify_all()

    def abort(self, job: Job) -> None:
        """In any state, any number of times. A batch that is being computed is the last that it is in."""
        with self._wake:
            if job.ended:
                return
            job.state = "aborted"
            self._end([job])
            self._wake.notify_all()

    def stats(self) -> EmbedderStats:
        with self._wake:
            waiting = sum(job.state == "waiting" for job in self._open)
            running = len(self._open) - waiting
        return EmbedderStats(
            waiting, running, self._inputs, self._tokens, self._steps, self._step_times, self._step_tokens
        )

    def shutdown(self, timeout: float = 30.0) -> None:
        """Takes nothing new, lets what is there finish for `timeout` seconds, aborts the rest and waits."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
            self._wake.wait_for(lambda: not self._open, timeout)
            for job in list(self._open):
                job.state = "aborted"
            self._end(self._open)
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            jobs, inputs = [job for job, _ in batch], [each for _, each in batch]
            began = time.perf_counter()
            try:
                vectors: Vector | None = self.encoder.encode(inputs)
            except Exception:
                logger.exception("a batch failed; its %d requests end with an error", len(set(jobs)))
                vectors = None
            self._count(inputs, time.perf_counter() - began)
            self._give(jobs, vectors)

    def _next_batch(self) -> list[tuple[Job, list[int]]]:
        """Sleeps until there is something to do; empty when there never will be again."""
        with self._wake:
            while not (batch := self._turns.take()) and not self._closing:
                self._wake.wait()
            return batch

    def _count(self, inputs: list[list[int]], seconds: float) -> None:
        tokens = sum(map(len, inputs))
        self._steps += 1
        self._inputs += len(inputs)
        self._tokens += tokens
        self._step_times.observe(seconds)
        self._step_tokens.observe(tokens)

    def _give(self, jobs: list[Job], vectors: Vector | None) -> None:
        with self._wake:
            for index, job in enumerate(jobs):
                if vectors is not None:
                    job.take(vectors[index])
                elif not job.ended:
                    job.state = "failed"
            self._end({job for job in jobs if job.ended})
            self._wake.notify_all()

    def _end(self, jobs: Iterable[Job]) -> None:
        for job in list(jobs):
            if job not in self._open:
                continue
            self._open.remove(job)
            self._turns.drop(job)
            try:
                job.on_end()
            except Exception:  # a listener's fault must not stop the other requests
                logger.exception("the receiver of a request's vectors failed")
