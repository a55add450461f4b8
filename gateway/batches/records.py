"""What is remembered of a file and of a batch, and how a batch passes from state to state. Plain data, as stored."""

from __future__ import annotations

import secrets
import time
from typing import Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from gateway.errors import BadRequest
from gateway.store.record import Record

Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/responses"]
Purpose = Literal["batch", "batch_output"]
Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
Ending = Literal["failed", "completed", "expired", "cancelled"]

# From each state to those that may follow it. Who is not here has ended.
NEXT: dict[Status, frozenset[Status]] = {
    "validating": frozenset({"failed", "in_progress", "cancelling"}),
    "in_progress": frozenset({"failed", "finalizing", "expired", "cancelling"}),
    "finalizing": frozenset({"completed", "failed"}),
    "cancelling": frozenset({"cancelled", "failed"}),
}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a batch or with a line of its input."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Counts(msgspec.Struct, frozen=True):
    total: int = 0
    completed: int = 0
    failed: int = 0


class File(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A file of somebody's. Its content is found by its id alone; its name is a label."""

    kind: ClassVar[str] = "file"

    subject: str
    filename: str
    purpose: Purpose
    bytes: int
    expires: int  # Unix seconds


class Batch(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A batch, and on whose account it runs: by which key, and which program asked for them."""

    kind: ClassVar[str] = "batch"

    subject: str
    name: str = ""
    key_id: str = ""
    acting: str = ""

    endpoint: Endpoint
    input_file: str
    output_file: str  # the ids that its results will have
    error_file: str
    completion_window: str
    expires: int  # Unix seconds
    output_life: int  # seconds that its results are kept for
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    model: str = ""
    status: Status = "validating"
    at: dict[Status, int] = msgspec.field(default_factory=dict)  # when it came to each state, Unix seconds
    faults: tuple[Fault, ...] = ()
    counts: Counts = Counts()
    has_output: bool = False
    has_errors: bool = False

    @property
    def has_ended(self) -> bool:
        return self.status not in NEXT


def new_id(kind: Literal["file", "batch"]) -> str:
    """Ids sort by the time they were made at, and cannot be guessed."""
    return f"{kind}{'-' if kind == 'file' else '_'}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(12)}"


def made_at(record_id: str) -> float:
    """Unix seconds at which an id of ours was made."""
    return int(record_id[-36:-24], 16) / 1000


def moved(batch: Batch, status: Status, **changes: Any) -> Batch:
    """The batch in another state; as it was where it cannot come there, for somebody else has moved it."""
    if status not in NEXT.get(batch.status, ()):
        return batch
    return replace(batch, status=status, at=batch.at | {status: int(time.time())}, **changes)


def window_seconds(text: str) -> int:
    """Of a completion window such as 24h or 7d. Raises BadRequest."""
    number, unit = text[:-1], text[-1:]
    seconds = {"h": 3600, "d": 86_400}.get(unit, 0) * (int(number) if number.isdecimal() and len(number) < 4 else 0)
    if not 3600 <= seconds <= 7 * 86_400:
        raise BadRequest(
            "Expected a completion_window of hours or days, from 1h to 7d, such as 24h.",
            param="completion_window",
            code="invalid_value",
        )
    return seconds
