"""One step of the engine, and the thread that takes one after another. Knows neither text nor HTTP.

Every accepted request ends in exactly one `SequenceOutput` with a finish reason, whatever happens to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from native_engine.ahead import ahead_of, can_be_followed
from native_engine.batch import RunnerLost, ScheduledBatch
from native_engine.block_manager import BlockManager
from native_engine.config import EngineConfig
from native_engine.histogram import Histogram
from native_engine.host_tier import HostTier
from native_engine.pace import Pace
from native_engine.request import FinishReason, Logprobs, Sequence, Status
from native_engine.runner import AheadRunner, Launched, Runner
from native_engine.scheduler import Scheduler
from native_engine.work import Work

logger = logging.getLogger(__name__)

# fmt: off
_STEP_SECONDS = (
    0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.5, 0.75, 1.0, 2.5, 5.0, 10.0,
)
# fmt: on
_STEP_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_STEP_DECODES = (0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)


@dataclass(slots=True)
class SequenceOutput:
    """What one step brought to one request. A token that ended it (end of text, stop token) is the last of the new."""

    request_id: str
    new_token_ids: list[int]
    finish_reason: FinishReason | None
    num_prompt_tokens: int
    num_cached_tokens: int
    logprobs: list[Logprobs] = field(default_factory=list)  # of each new token, where they were asked for


@dataclass(frozen=True, slots=True)
class Stats:
    """The engine at one moment; the totals only grow, and the histograms go on being filled."""

    waiting: int
    running: int
    preempted: int  # of those that wait
    preemptions_total: int
    kv_blocks_used: int
    kv_blocks_total: int
    host_blocks_used: int
    host_blocks_total: int
    host_blocks_kept: int
    host_blocks_fetched: int
    kv_block_size: int
    prompt_tokens_total: int
    generation_tokens_total: int
    prefix_cache_queries: int
    prefix_cache_hits: int
    draft_tokens: int
    accepted_tokens: int
    steps: int
    step_times: Histogram
    step_tokens: Histogram
    step_decodes: Histogram
    work: Work | None


@dataclass(slots=True)
class _Step:
    batch: ScheduledBatch
    began: float
    launched: Launched | None  # None where it is still to be computed, by `Runner.execute`

    @property
    def can_be_followed(self) -> bool:
        return self.launched is not None and self.launched.on_device and can_be_followed(self.batch)


class Engine:
    """A scheduler and a runner. One thread owns it; `check` and `stats` may be called from any."""

    def __init__(
        self, runner: Runner, scheduler: Scheduler, pace: Pace | None = None, work: Work | None = None
    ) -> None:
        """`work` sums up what steps compute, where the model's shape is known."""
        self.runner = runner
        self.work = work
        self.scheduler = scheduler
        self.pace = pace
        self._ahead_runner = runner if isinstance(runner, AheadRunner) and runner.runs_ahead else None
        self._under_way: _Step | None = None
        self._settled_at = 0.0
        self.steps = 0
        self.step_times = Histogram(_STEP_SECONDS)
        self.step_tokens = Histogram(_STEP_TOKENS)
        self.step_decodes = Histogram(_STEP_DECODES)

    @classmethod
    def create(cls, runner: Runner, config: EngineConfig, work: Work | None = None) -> Engine:
        tier = HostTier(runner.num_host_blocks) if runner.num_host_blocks else None
        blocks = BlockManager(runner.num_blocks, config.block_size, config.enable_prefix_caching, tier, runner.window)
        scheduler = Scheduler(
            blocks,
            config.max_num_seqs,
            config.max_num_batched_tokens,
            runner.max_model_len,
            num_speculative_tokens=config.num_speculative_tokens,
            max_num_logits=config.max_num_logits,
        )
        return cls(runner, scheduler, None if config.target_tpot is None else Pace(config.target_tpot), work)

    @property
    def has_work(self) -> bool:
        """Something is left for `step` to do, if only to see a step through that brings nobody anything any more."""
        return self.scheduler.has_work or self._under_way is not None

    def check(self, sequence: Sequence) -> None:
        """Raises ValueError, with the numbers, for a request that can never run."""
        self.scheduler.check(sequence)

    def add(self, sequence: Sequence) -> None:
        self.scheduler.add(sequence)

    def abort(self, request_id: str) -> list[SequenceOutput]:
        """The last word of that request; none where it has had it already."""
        sequence = self.scheduler.abort(request_id)
        return [] if sequence is None else [_output(sequence, 0)]

    def abort_all(self) -> list[SequenceOutput]:
        return [output for sequence in self.scheduler.live for output in self.abort(sequence.request_id)]

    def step(self) -> list[SequenceOutput]:
        """Gives out the tokens of one step; where a device chooses them, the next is launched before they are known.

        The next one is planned by the rule in `ahead`.
        """
        step = self._under_way or self._launch()
        if step is None:
            return []
        self._under_way = self._launch_behind(step.batch) if step.can_be_followed else None
        outputs = self._settle(step)
        if self._under_way is not None and self._under_way.launched is None:  # before an abort leaves holes in it
            step, self._under_way = self._under_way, None
            outputs += self._settle(step)
        return outputs

    def _launch_behind(self, under_way: ScheduledBatch) -> _Step | None:
        with ahead_of(under_way):
            return self._launch(under_way)

    def _launch(self, under_way: ScheduledBatch | None = None) -> _Step | None:
        """Schedules, and lets a device begin."""
        began = time.perf_counter()
        batch = self.scheduler.schedule(self.pace.limit if self.pace else None, under_way)
        if copies := self.scheduler.blocks.take_copies():
            self.runner.copy(copies)
        if not batch.items:
            return None
        self.steps += 1
        self.step_tokens.observe(batch.num_tokens)
        self.step_decodes.observe(batch.num_decodes)
        if self.work is not None:
            self.work.add(batch)
        launched = None
        if self._ahead_runner:
            try:
                launched = self._ahead_runner.launch(batch)
            except Exception:
                logger.exception("a step of %d requests could not be launched", len(batch.items))
        return _Step(batch, began, launched)

    def _settle(self, step: _Step) -> list[SequenceOutput]:
        """Waits for a step, or computes it, and gives out its tokens."""
        tokens = None if step.launched is None else self._wait_for(step.launched)
        if tokens is None:
            outputs = self._compute(step.batch)
        else:
            following = self._under_way.batch if self._under_way else None
            outputs = self._give_out(step.batch, tokens, following)
        now = time.perf_counter()
        seconds = now - max(step.began, self._settled_at)
        self._settled_at = now
        self.step_times.observe(seconds)
        if self.pace:
            has_prefill = step.batch.num_decodes < len(step.batch.items)
            self.pace.observe(step.batch.num_tokens, seconds, has_prefill=has_prefill)
        return outputs

    def _wait_for(self, launched: Launched) -> list[list[int]] | None:
        """None where the step failed; what followed it is then to be computed anew too."""
        try:
            return launched.tokens()
        except Exception:
            logger.exception("a step under way failed: it is computed again, and whatever followed it")
        if self._under_way is not None:
            self._under_way.launched = None
        return None

    def _give_out(
        self, batch: ScheduledBatch, tokens: list[list[int]], following: ScheduledBatch | None = None
    ) -> list[SequenceOutput]:
        return [_output(*grown) for grown in self.scheduler.postprocess(batch, tokens, following)]

    def _compute(self, batch: ScheduledBatch) -> list[SequenceOutput]:
        """A batch that fails is run by halves, until only those have ended that cannot be computed.

        What the failed run wrote into the cache is written again, the same; tokens are chosen after all computing, so
        none was yet. Who ended after the batch was scheduled is left out, and what it was to write is hidden.
        """
        if (ended := batch.ended()).items:
            self.scheduler.fail(ended)
        parts, outputs = [part for part in (batch.running(),) if part.items], list[SequenceOutput]()
        while parts:
            part = parts.pop()
            try:
                tokens = self.runner.execute(part)
            except Exception:
                if len(part.items) > 1:
                    logger.exception("a step of %d requests failed: looking for the one at fault", len(part.items))
                    parts += reversed(part.halves())
                    continue
                logger.exception("%s cannot be computed; it ends with an error", part.items[0].sequence.request_id)
                outputs += [_output(sequence, 0) for sequence in self.scheduler.fail(part)]
                parts = [still for each in parts if (still := each.running()).items]
                continue
            outputs += self._give_out(part, tokens)
        return outputs

    def stats(self) -> Stats:
        scheduler, tier = self.scheduler, self.scheduler.blocks.host_tier
        return Stats(
            waiting=len(scheduler.waiting),
            running=len(scheduler.running),
            # A copy is made in one piece; the list itself may change under whoever walks through it.
            preempted=sum(sequence.status is Status.PREEMPTED for sequence in scheduler.waiting.copy()),
            preemptions_total=scheduler.num_preemptions,
            kv_blocks_used=scheduler.blocks.num_used,
            kv_blocks_total=scheduler.blocks.num_blocks,
            host_blocks_used=tier.num_used if tier else 0,
            host_blocks_total=tier.num_blocks if tier else 0,
            host_blocks_kept=tier.num_kept if tier else 0,
            host_blocks_fetched=tier.num_fetched if tier else 0,
            kv_block_size=scheduler.blocks.block_size,
            prompt_tokens_total=scheduler.prompt_tokens,
            generation_tokens_total=scheduler.generation_tokens,
            prefix_cache_queries=scheduler.prefix_cache_queries,
            prefix_cache_hits=scheduler.prefix_cache_hits,
            draft_tokens=scheduler.speculation.draft_tokens,
            accepted_tokens=scheduler.speculation.accepted_tokens,
            steps=self.steps,
            step_times=self.step_times,
            step_tokens=self.step_tokens,
            step_decodes=self.step_decodes,
            work=self.work,
        )


def _output(sequence: Sequence, num_new_tokens: int) -> SequenceOutput:
    return SequenceOutput(
        sequence.request_id,
        sequence.token_ids[len(sequence.token_ids) - num_new_tokens :],
        sequence.finish_reason,
        sequence.num_prompt_tokens,
        sequence.num_cached_tokens,
        sequence.logprobs[:num_new_tokens],
    )


class EngineStopped(RuntimeError):
    """The engine takes no more requests: it is shutting down, or has failed."""


class EngineLoop:
    """The thread that owns an engine. `on_outputs` is called in it, once a step, with all that the step brought.

    Where a device computes (`AheadRunner`), scheduling, launching and delivery overlap with the step under way: it was
    launched before the outputs of the one before it were known (see `ahead`). On a CPU they stand between two steps:
    both want the same cores, and there is nothing to gain.
    """

    def __init__(self, engine: Engine, on_outputs: Callable[[list[SequenceOutput]], None]) -> None:
        self._engine = engine
        self._on_outputs = on_outputs
        self._wake = threading.Condition()
        self._submitted: list[Sequence] = []
        self._aborted: list[str] = []
        self._accepted: set[str] = set()  # ids that have not had their last output
        self._closing = False
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name="engine-loop", daemon=True)

    @property
    def is_running(self) -> bool:
        """True while new requests are taken."""
        return self._thread.is_alive() and not self._closing

    def start(self) -> None:
        self._thread.start()

    def submit(self, sequence: Sequence) -> None:
        """From any thread. Raises ValueError for a request that can never run, EngineStopped when it is too late."""
        self._engine.check(sequence)
        with self._wake:
            if not self.is_running:
                raise EngineStopped("the engine is shutting down and takes no more requests")
            if sequence.request_id in self._accepted:
                raise ValueError(f"request id {sequence.request_id!r} is in use")
            self._accepted.add(sequence.request_id)
            self._submitted.append(sequence)
            self._wake.notify()

    def abort(self, request_id: str) -> None:
        """From any thread, in any state, any number of times; takes effect before the next step."""
        with self._wake:
            if request_id in self._accepted:
                self._aborted.append(request_id)
                self._wake.notify()

    def stats(self) -> Stats:
        """What a long step keeps from being scheduled is waiting too."""
        stats = self._engine.stats()
        return replace(stats, waiting=stats.waiting + len(self._submitted))

    def shutdown(self, timeout: float = 30.0) -> None:
        """Takes nothing new, lets what runs finish for `timeout` seconds, aborts the rest and waits for the thread."""
        with self._wake:
            self._closing = True
            self._deadline = time.monotonic() + timeout
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                outputs = self._take_commands()
                if time.monotonic() >= self._deadline:
                    outputs += self._engine.abort_all()
                self._deliver(outputs + self._engine.step())
        except (Exception, RunnerLost):
            logger.exception("the engine loop failed; every request ends with an error")
            self._fail_all()

    def _wait_for_work(self) -> bool:
        """Sleeps until there is something to do; False when there never will be again."""
        with self._wake:
            while not (self._submitted or self._aborted or self._engine.has_work):
                if self._closing:
                    return False
                self._wake.wait()
            return True

    def _take_commands(self) -> list[SequenceOutput]:
        with self._wake:
            submitted, self._submitted = self._submitted, []
            aborted, self._aborted = self._aborted, []
        for sequence in submitted:
            self._engine.add(sequence)
        return [output for request_id in aborted for output in self._engine.abort(request_id)]

    def _deliver(self, outputs: list[SequenceOutput]) -> None:
        if not outputs:
            return
        ended = [output.request_id for output in outputs if output.finish_reason is not None]
        if ended:
            with self._wake:
                self._accepted.difference_update(ended)
        try:
            self._on_outputs(outputs)
        except Exception:  # a listener's fault must not stop the other requests
            logger.exception("the receiver of %d outputs failed", len(outputs))

    def _fail_all(self) -> None:
        with self._wake:
            self._closing = True
            lost = sorted(self._accepted)
        self._deliver([SequenceOutput(request_id, [], FinishReason.ERROR, 0, 0) for request_id in lost])
