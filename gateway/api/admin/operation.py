"""One operation of the admin API: its signature says what is read and answered, to the server and to the document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, get_type_hints
from urllib.parse import parse_qsl

from msgspec import Struct

from gateway.api.door import Door
from gateway.api.http import read_body, send_bytes, send_json
from gateway.api.language import answered
from gateway.errors import BadRequest
from gateway.identity.administration.forms import Form, read_fields
from gateway.identity.administration.office import Office
from gateway.scope import Endpoint, Principal, RequestScope, Role
from gateway.store.directory import Actor, actor_of

# Room for the longest lists that the forms allow.
_MOST_BYTES = 1024 * 1024
_MOST_PARAMETERS = 20
# Without it spreadsheets take names for another encoding's.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Asked(NamedTuple):
    """Who asks, about what, and what they may work with."""

    office: Office
    actor: Actor
    principal: Principal
    id: str  # what stood in the path's {id}
    door: Door


class Operation:
    """`run` takes `asked`, and `query` or `body` of the Form that it wants. Its docstring's first line is shown.

    `as_csv` spells the answer for a spreadsheet, where it is asked for: by Accept, or by the query's `format`.
    """

    def __init__(
        self,
        method: str,
        path: str,
        run: Callable[..., Awaitable[Any]],
        *,
        role: Role | None = None,
        endpoint: Endpoint | None = "admin",
        status: int = 200,
        as_csv: Callable[[Any], str] | None = None,
    ) -> None:
        types = get_type_hints(run)
        self.method = method
        self.path = path
        self.role: Role = role or ("auditor" if method == "GET" else "admin")
        self.endpoint = endpoint
        self.status = status
        self.name = f"{run.__module__.rpartition('.')[2]}.{run.__name__}".replace("_.", ".").rstrip("_")
        self.summary = (run.__doc__ or "").partition("\n")[0]
        self.query: type[Form] = types.get("query", Form)
        self.body: type[Form] | None = types.get("body")
        # What the document says of the body, where that is not read by its type alone.
        self.described: type[Struct] | None = getattr(self.body, "described", self.body)
        self.answer: Any = types["return"]
        self.as_csv = as_csv
        self._run = run
        self._takes_query = "query" in types

    async def __call__(self, door: Door, request: RequestScope) -> None:
        given: dict[str, Form] = {}
        query = read_fields(_parameters(request.query), self.query, strict=False)
        if self._takes_query:
            given["query"] = query
        if self.body is not None:
            limit = min(_MOST_BYTES, door.settings.max_body_bytes)
            given["body"] = self.body.of_json(await read_body(request, limit, door.settings.body_timeout))
        answer = await self._run(_asked(door, request), **given)
        if self.as_csv is not None and _wants_csv(request, query):
            await send_bytes(request, _BYTE_ORDER_MARK + self.as_csv(answer).encode(), "text/csv; charset=utf-8")
        else:
            await send_json(request, answered(request, answer), self.status)


def _asked(door: Door, request: RequestScope) -> Asked:
    principal = request.known()
    office = Office(door.directory, door.key_ring, door.sessions, door.chat.forgetting.all_of)
    return Asked(office, actor_of(principal, request.client), principal, request.path_value, door)


def _wants_csv(request: RequestScope, query: Form) -> bool:
    if (chosen := getattr(query, "format", None)) is not None:
        return bool(chosen == "csv")
    return request.headers.get(b"accept", b"").lower().startswith(b"text/csv")


def _parameters(query: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"At most {_MOST_PARAMETERS} parameters are taken behind the question mark.") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadRequest("A parameter stands twice behind the question mark. Send each once.")
    return found
