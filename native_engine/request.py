"""One request as plain data: its sampling parameters, its state and its tokens. Knows neither scheduler nor model."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as ListLike
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from native_engine.drafts import PromptLookup

SEED_BITS = 64
MAX_LOGPROBS = 20


class Status(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


class FinishReason(enum.Enum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


class Logprobs(NamedTuple):
    """Natural logarithms of what the model itself said, before temperature and limits; `top` is (token, logprob)s.

    `rank`: 1 where the chosen token was the likeliest.
    """

    chosen: float
    top: tuple[tuple[int, float], ...]
    rank: int


class Constraint(Protocol):
    """Which tokens may come next in one sequence. It is told of each that came, and never of one that did not."""

    @property
    def ready(self) -> bool:
        """`allowed` would answer at once. A step goes on without those that are not, while others get on."""
        ...

    def allowed(self) -> bytes | None:
        """One bit a token, the lowest first; None ends the sequence with an error."""
        ...

    def push(self, token: int) -> None: ...


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen and when to end. The names and their meaning are vLLM's; the order in which they
    act is told in `sampling.sampler`.

    `stop` strings are matched on text, outside the step loop. `logprobs` is the number of alternatives told with each
    token; None tells nothing, not even the token's own; `prompt_logprobs` is the same for each token of the prompt but
    the first. `bad_words` act by their spellings in tokens, `bad_words_ids`,
    which whoever has the tokenizer adds (`text.bad_words`).
    """

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = None
    bad_words: tuple[str, ...] = ()
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        _require(self.max_tokens is None or self.max_tokens >= 1, "max_tokens", self.max_tokens, "at least 1")
        _require(self.min_tokens >= 0, "min_tokens", self.min_tokens, "at least 0")
        limit = self.max_tokens if self.max_tokens is not None else self.min_tokens
        _require(self.min_tokens <= limit, "min_tokens", self.min_tokens, f"at most max_tokens ({limit})")
        _require(_within(self.temperature, 0.0, math.inf), "temperature", self.temperature, "0 or more, and finite")
        _require(_within(self.top_p, 0.0, 1.0) and self.top_p > 0, "top_p", self.top_p, "above 0 and at most 1")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 (all tokens) or more")
        _require(_within(self.min_p, 0.0, 1.0), "min_p", self.min_p, "between 0 and 1")
        _require(_within(self.typical_p, 0.0, 1.0) and self.typical_p > 0, "typical_p", self.typical_p, "above 0, to 1")
        for name in ("presence_penalty", "frequency_penalty"):
            _require(_within(getattr(self, name), -2.0, 2.0), name, getattr(self, name), "between -2 and 2")
        repetition = self.repetition_penalty
        _require(_within(repetition, 0.0, math.inf) and repetition > 0, "repetition_penalty", repetition, "above 0")
        biases = self.logit_bias or {}
        _require(
            all(token >= 0 and _within(bias, -100.0, 100.0) for token, bias in biases.items()),
            "logit_bias",
            biases,
            "a bias between -100 and 100 for each token id",
        )
        _require(
            all(self.bad_words) and all(self.bad_words_ids), "bad_words", self.bad_words, "words that are not empty"
        )
        _require(self.seed is None or _is_seed(self.seed), "seed", self.seed, f"an integer of {SEED_BITS} bits")
        _require(all(self.stop), "stop", self.stop, "strings that are not empty")
        _require(all(token >= 0 for token in self.stop_token_ids), "stop_token_ids", self.stop_token_ids, "token ids")
        for name in ("logprobs", "prompt_logprobs"):
            count = getattr(self, name)
            _require(0 <= (count or 0) <= MAX_LOGPROBS, name, count, f"0 to {MAX_LOGPROBS}")

    @property
    def is_greedy(self) -> bool:
        """Below a hundred-thousandth, as in vLLM: there is no second choice."""
        return self.temperature < 1e-5

    @property
    def penalises(self) -> bool:
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0

    @property
    def looks_back(self) -> bool:
        """Whether the answer so far changes which token may come next."""
        return self.min_tokens > 0 or bool(self.bad_words_ids) or self.penalises


def _require(holds: bool, field: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{field} must be {expected}, got {value!r}")


def _within(value: float, low: float, high: float) -> bool:
    return math.isfinite(value) and low <= value <= high


def _is_seed(value: int) -> bool:
    return -(1 << (SEED_BITS - 1)) <= value < 1 << SEED_BITS


class Stages(NamedTuple):
    """Seconds spent in each stage so far; None where a stage has not begun. What a preemption costs is decode's."""

    queue: float
    prefill: float | None
    decode: float | None


class Preemption(NamedTuple):
    """`at`: by the clock of `queued_at`. `num_tokens`: those that are to be computed again."""

    at: float
    num_tokens: int


class Sequence:
    """A request on its way through the engine. `token_ids` only ever grows; `num_computed_tokens` chases its length.

    While a step is planned ahead of another, `token_ids` may end in a placeholder: see `ahead`.
    """

    __slots__ = (
        "admitted",
        "block_hashes",
        "block_table",
        "cache_salt",
        "constraint",
        "eos_token_ids",
        "finish_reason",
        "finished_at",
        "first_block",
        "first_token_at",
        "is_held",
        "logprobs",
        "lookup",
        "max_total_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_prompt_tokens",
        "num_yields",
        "params",
        "preemptions",
        "priority",
        "prompt_logprobs",
        "queued_at",
        "rank",
        "request_id",
        "sampler_state",
        "scheduled_at",
        "status",
        "stop_ids",
        "token_ids",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Iterable[int],
        params: SamplingParams,
        *,
        eos_token_ids: frozenset[int] = frozenset(),
        cache_salt: bytes = b"",
        constraint: Constraint | None = None,
        priority: int = 0,
        queued_at: float | None = None,
    ) -> None:
        self.request_id = request_id
        self.token_ids: list[int] = list(prompt_token_ids)
        self.num_prompt_tokens = len(self.token_ids)
        self.params = params
        self.eos_token_ids = eos_token_ids
        self.cache_salt = cache_salt
        self.constraint = constraint
        self.priority = priority  # the lowest goes first
        self.rank = (0, 0, 0)  # the scheduler's: its place among all
        self.queued_at = time.monotonic() if queued_at is None else queued_at
        self.scheduled_at: float | None = None  # by the same clock: when it first ran
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        self.status = Status.WAITING
        self.finish_reason: FinishReason | None = None
        self.admitted = False  # has run at least once, so its prompt counts
        self.num_computed_tokens = 0
        self.num_cached_tokens = 0  # prompt tokens found in the prefix cache when first admitted
        self.preemptions: list[Preemption] = []
        self.is_held = False  # the last step could not give it a token: its mask was not made yet
        self.num_yields = 0  # preemptions for a request of a better priority
        self.block_table: list[int] = []
        self.first_block = 0  # the table's entries before it lie behind the window and have been given back
        self.block_hashes: list[bytes] = []  # of each full block so far; survives preemption, so each is made once
        self.max_total_tokens = 0  # prompt and output together; the scheduler sets it on admission
        self.stop_ids = params.stop_token_ids if params.ignore_eos else params.stop_token_ids | eos_token_ids
        self.logprobs: list[Logprobs] = []  # of what was sampled last, where params ask for them
        self.lookup: PromptLookup | None = None  # the scheduler's, where tokens may be guessed
        self.prompt_logprobs: list[Logprobs] = []  # of the prompt's tokens from the second on, as far as computed
        self.sampler_state: object | None = None  # stays with the request through preemption

    @property
    def looks_back(self) -> bool:
        """As `SamplingParams.looks_back`; then tokens are chosen one at a time."""
        return self.constraint is not None or self.params.looks_back

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_preemptions(self) -> int:
        return len(self.preemptions)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Some of those that were asked for are still to be computed."""
        asked = self.params.prompt_logprobs is not None
        return asked and len(self.prompt_logprobs) < self.num_prompt_tokens - 1

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    def __repr__(self) -> str:
        return (
            f"Sequence({self.request_id!r}, {self.status.value}, prompt={self.num_prompt_tokens}, "
            f"output={self.num_output_tokens}, computed={self.num_computed_tokens})"
        )


def is_ready(sequence: Sequence) -> bool:
    """Whether a token can be chosen for it without waiting."""
    return sequence.constraint is None or sequence.constraint.ready


def stages_of(sequences: ListLike[Sequence], now: float) -> Stages:
    """Queue: until the first of them ran. Prefill: until the first token of any. Decode: until the last has ended."""
    queued = min(sequence.queued_at for sequence in sequences)
    scheduled = _first(sequence.scheduled_at for sequence in sequences)
    first_token = _first(sequence.first_token_at for sequence in sequences)
    end = min(now, max(now if sequence.finished_at is None else sequence.finished_at for sequence in sequences))
    return Stages(
        queue=(end if scheduled is None else scheduled) - queued,
        prefill=None if scheduled is None else (end if first_token is None else first_token) - scheduled,
        decode=None if first_token is None else end - first_token,
    )


def _first(times: Iterable[float | None]) -> float | None:
    return min((each for each in times if each is not None), default=None)
