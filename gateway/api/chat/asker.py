"""Who asks, and what was sent: people alone have conversations here. Answers to them stay out of caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from gateway.api.door import Door
from gateway.api.http import read_body, send_json
from gateway.errors import BadRequest, Forbidden
from gateway.identity.administration.forms import Form, read_fields
from gateway.scope import Principal, RequestScope

AnyForm = TypeVar("AnyForm", bound=Form)

_MOST_PARAMETERS = 20
NO_STORE = [(b"cache-control", b"no-store"), (b"vary", b"cookie, authorization")]


def person(request: RequestScope) -> Principal:
    """Raises Forbidden for programs, and for those whom programs ask for."""
    principal = request.known()
    if principal.acting or not principal.subject.startswith("usr_"):
        raise Forbidden("The chat is for people: sign in, or use a key of your own.", code="people_only")
    return principal


def waiting(principal: Principal) -> Principal:
    """The same, in the class of those who wait for an answer, unless their key is for something else."""
    grant = principal.grant
    return replace(principal, grant=replace(grant, queue_class=grant.queue_class or "interactive"))


async def form_of(door: Door, request: RequestScope, kind: type[AnyForm], limit: int) -> AnyForm:
    body = await read_body(request, min(limit, door.settings.max_body_bytes), door.settings.body_timeout)
    return kind.of_json(body)


def query_of(request: RequestScope, kind: type[AnyForm]) -> AnyForm:
    try:
        pairs = parse_qsl(request.query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"At most {_MOST_PARAMETERS} parameters are taken behind the question mark.") from None
    return read_fields(dict(pairs), kind, strict=False)


async def send(request: RequestScope, value: Any, status: int = 200) -> None:
    await send_json(request, value, status, NO_STORE)
