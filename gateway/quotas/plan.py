"""What a request is about to ask of the quotas: its limits, their buckets, its size. Pure; Redis has not been asked.

Limits on the request itself are decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.errors import DoorError, ModelNotFound, RequestTooLarge
from gateway.quotas.applied import Applied
from gateway.quotas.buckets import Bucket
from gateway.quotas.effective import Limit
from gateway.store import keys

# Room for output where neither client nor model says any.
UNBOUNDED = 1_000_000


class Size(NamedTuple):
    """Of one request, n choices together. `prompt` may be an estimate; `output` is the client's limit; 0: unknown."""

    prompt: int
    output: int = 0
    context: int = 0
    generates: bool = True  # False: there is no output, as of embeddings


@dataclass(frozen=True, slots=True)
class Plan:
    request_id: str
    whom: str  # whose output is learned
    model: str
    prompt: int
    room: int  # the most output that can be
    output_cap: int  # what a policy cuts the output to where the client gave no limit; 0: none does
    applied: Applied
    shadow: tuple[str, ...]  # what a policy in shadow would have refused already

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        return self.applied.buckets

    @property
    def rules(self) -> str:
        return self.applied.rules

    @property
    def keys(self) -> tuple[str, ...]:
        """Of RESERVE and SETTLE."""
        request_id = self.request_id
        own = (keys.reservation(request_id), keys.reservation_end(request_id), keys.RESERVATIONS)
        return (*own, keys.estimate(self.whom, self.model), *self.applied.keys)


class Checked(NamedTuple):
    room: int
    output_cap: int
    shadow: tuple[str, ...]


def check(limits: Sequence[Limit], model: str, size: Size) -> Checked:
    """The limits on one request. Raises ModelNotFound or RequestTooLarge."""
    shadow = []
    for limit in limits:
        fault = _fault(limit, model, size)
        if fault is None:
            continue
        if not limit.shadow:
            raise fault
        shadow.append(f"{limit.policy}: {fault.message}")
    caps = [limit.value for limit in limits if limit.name == "max_output_tokens" and not limit.shadow]
    if not size.generates:
        return Checked(0, 0, tuple(shadow))
    cap = min(caps, default=0)
    room = size.output or min(cap or UNBOUNDED, max(1, size.context - size.prompt) if size.context else UNBOUNDED)
    return Checked(room, 0 if size.output else cap, tuple(shadow))


def _fault(limit: Limit, model: str, size: Size) -> DoorError | None:
    by = f"policy {limit.policy!r} ({limit.why})"
    if limit.name == "allowed_models" and not any(fnmatchcase(model, pattern) for pattern in limit.models):
        return ModelNotFound(f"The model {model[:100]!r} is not among those that you may use, by {by}.")
    if limit.name == "max_output_tokens" and size.output > limit.value:
        return RequestTooLarge(
            f"At most {limit.value} output tokens may be asked for, by {by}; this request asks for {size.output}.",
            param="max_tokens",
            code="max_output_exceeded",
        )
    if limit.name == "max_context_tokens" and size.prompt + size.output > limit.value:
        return RequestTooLarge(
            f"At most {limit.value} tokens of prompt and output together are allowed, by {by}; this request has about "
            f"{size.prompt} of prompt and asks for {size.output} of output. Shorten it.",
            param="messages",
        )
    return None
