"""What applies to a principal on a model, made ready for the scripts, and remembered as long as it stays the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from gateway.quotas.buckets import Bucket, Weights, buckets
from gateway.quotas.effective import Limit, effective
from gateway.quotas.nearing import Nearing
from gateway.quotas.policy import Policy
from gateway.scope import Principal

_CAPACITY = 4096
_MINUTE_MS = 60_000

_Asking = tuple[str, str, tuple[str, ...], str, str, str]


@dataclass(frozen=True, slots=True)
class Applied:
    limits: tuple[Limit, ...]
    buckets: tuple[Bucket, ...]
    keys: tuple[str, ...]  # of the buckets
    rules: str


class Memory:
    """To work it out for every request would cost more than all else here."""

    def __init__(self, price: Callable[[str], Weights], zone: tzinfo, nearing: Nearing) -> None:
        self._price = price
        self._zone = zone
        self._nearing = nearing
        self._good_for: tuple[tuple[Policy, ...], int] = ((), 0)
        self._known: OrderedDict[_Asking, Applied] = OrderedDict()

    def applied(self, principal: Principal, model: str, policies: tuple[Policy, ...], now_ms: int) -> Applied:
        minute = now_ms // _MINUTE_MS  # the keys of days and months change with it
        if self._good_for[0] is not policies:
            self._nearing.forget()
        if self._good_for[0] is not policies or self._good_for[1] != minute:
            self._good_for = (policies, minute)
            self._known.clear()
        who = principal
        asking = (who.subject, who.role, who.groups, who.key_id, who.acting, model)
        if (found := self._known.get(asking)) is None:
            found = self._known[asking] = self._work_out(principal, model, policies, now_ms)
            if len(self._known) > _CAPACITY:
                self._known.popitem(last=False)
        return found

    def _work_out(self, principal: Principal, model: str, policies: tuple[Policy, ...], now_ms: int) -> Applied:
        limits = effective(principal, model, policies)
        counted = buckets(limits, self._price(model), self._zone, now_ms)
        self._nearing.note(counted)
        names = tuple(key for bucket in counted for key in bucket.keys)
        return Applied(tuple(limits), tuple(counted), names, ";".join(bucket.rule for bucket in counted))
