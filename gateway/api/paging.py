"""Lists as the official API pages them: `after`, `limit`, `order`, and has_more in the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from gateway.errors import BadRequest
from gateway.store.record import Record

_MOST_PARAMETERS = 20
AnyRecord = TypeVar("AnyRecord", bound=Record)
Order = Literal["asc", "desc"]


def parameters(query: bytes) -> dict[str, str]:
    """Of a query; a repeated one keeps its last value. Raises BadRequest."""
    try:
        return dict(parse_qsl(query.decode("latin-1"), max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        raise BadRequest(f"At most {_MOST_PARAMETERS} parameters are taken behind the question mark.") from None


def paged(
    oldest_first: Sequence[AnyRecord], query: dict[str, str], most: int, usual: int, show: Callable[[AnyRecord], Any]
) -> dict[str, Any]:
    """The page that the query asks for, newest first unless it says otherwise. Raises BadRequest."""
    rows = list(oldest_first) if _order(query) == "asc" else list(reversed(oldest_first))
    if after := query.get("after"):
        ids = [row.id for row in rows]
        if after not in ids:
            raise BadRequest("There is nothing of yours with this id to go on from.", param="after")
        rows = rows[ids.index(after) + 1 :]
    limit = _limit(query, most, usual)
    page = rows[:limit]
    return {
        "object": "list",
        "data": [show(row) for row in page],
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
        "has_more": len(rows) > limit,
    }


def _order(query: dict[str, str]) -> str:
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest("Expected asc or desc.", param="order", code="invalid_value")
    return order


def _limit(query: dict[str, str], most: int, usual: int) -> int:
    text = query.get("limit", str(usual))
    limit = int(text) if text.isdecimal() and len(text) < 7 else 0
    if not 1 <= limit <= most:
        raise BadRequest(f"Expected a limit from 1 to {most}.", param="limit", code="invalid_value")
    return limit
