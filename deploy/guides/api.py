"""Writes api.md, the reference of every route: python -m deploy.guides.api --write, after a change of theirs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from deploy.guides.described import ROUTES as DESCRIBED
from gateway import errors
from gateway.api.admin.operation import Operation
from gateway.errors import DoorError
from gateway.identity.administration.forms import Form
from gateway.routes import PUBLIC_PATHS, ROUTES, Route

FILE = Path(__file__).with_name("api.md")
_TEMPLATE = "#/{name}"
# Of what a section's paths begin with, in the order of sections; the rest are pages.
_SECTIONS = {
    "/v1/": "The OpenAI API",
    "/chat/v1/": "The chat",
    "/plan/v1/": "The planner",
    "/admin/v1/": "Administration",
    "/healthz": "Probes and metrics",
    "/": "Pages and sign-in",
}
_NO_BOUND = 2**53  # what a number is held to by its format alone
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_HEAD = """\
# API reference

Written by `python -m deploy.guides.api --write` from the routes and the types that they are read with; a test holds it
to them. What the OpenAI API means by its fields is told by its own reference; what is different here is in the
[RAG guide](rag.md) and in [gateway/README.md](../../gateway/README.md). The admin API is also an OpenAPI document, at
`/admin/v1/openapi.json`.

**Who may.** `none`: needs no credential. `any`: an API key (`Authorization: Bearer sk-skh-...`), a provider's token, or
a browser's session. Where an endpoint is named, a key that is limited to endpoints has to hold it. A role is the least
that does: user, service, auditor, admin. The chat's API is for people: a key of a program gets 403 `people_only`.

**Errors** are all of one form: `{"error": {"message", "type", "param", "code"}}`, with an `x-request-id`. An unknown
field is a 400 that names it.

| header of a request | means |
| --- | --- |
| `X-On-Behalf-Of` | whom the program asks for; its key needs `on_behalf_of` |
| `X-Prefix-Id` | a name for the prompt's common beginning |
| `X-Data-Class` | how confidential it is; decides whether it may leave the house |
| `X-Queue-Updates: 1` | a stream tells its place in the line: `: queue position=7 eta=3.2` |
| `traceparent` | the trace that it belongs to |

| header of an answer | means |
| --- | --- |
| `x-request-id` | names the request in logs, traces and the audit trail |
| `x-queue-wait-ms` | how long it waited for its turn |
| `x-ratelimit-limit-*`, `-remaining-*`, `-reset-*` | of `requests` and `tokens`, as the official service |
| `Retry-After`, `x-should-retry` | when to try again; `false`: it would not help |
"""


class Said(NamedTuple):
    """A route as the reference shows it. Types are None where there is none."""

    says: str
    answers: str
    body: Any
    query: Any
    shown: Any


def text() -> str:
    types = list(dict.fromkeys(kind for route in ROUTES for kind in _types(_said(route))))
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    named = {kind: _spelled(schema) for kind, schema in zip(types, schemas, strict=True)}
    lines = [_HEAD, "## Errors", "", *_errors(), ""]
    for title in _SECTIONS.values():
        lines += [f"## {title}", ""]
        for route in ROUTES:
            if _section(route) == title:
                lines += [*_route(route, named), ""]
    lines += ["## Types", "", "`?`: may be left out. Bounds are in brackets.", ""]
    for name, schema in sorted(components.items()):
        lines += [*_type(name, schema), ""]
    return "\n".join(lines)


def _said(route: Route) -> Said:
    one = route.handler
    if isinstance(one, Operation):
        query = None if one.query is Form else one.query
        return Said(one.summary, "", one.described, query, one.answer)
    found = DESCRIBED[route.method, route.path]
    return Said(found.says, found.answers, found.body, found.query, found.shown)


def _types(said: Said) -> Iterator[Any]:
    return filter(None, (said.body, said.query, said.shown))


def _section(route: Route) -> str:
    if route.path in _PROBES:
        return _SECTIONS["/healthz"]
    return next(title for prefix, title in _SECTIONS.items() if route.path.startswith(prefix))


def _route(route: Route, named: dict[Any, str]) -> Iterator[str]:
    said = _said(route)
    yield f"### {route.method} {route.path}"
    yield ""
    yield f"{said.says}."
    yield ""
    yield f"- **Who**: {_who(route)}"
    if said.query is not None:
        yield f"- **Query**: {named[said.query]}"
    if said.body is not None:
        yield f"- **Takes**: {named[said.body]}"
    shown = named[said.shown] if said.shown is not None else ""
    yield f"- **Answers**: {': '.join(filter(None, (said.answers, shown)))}"
    if isinstance(route.handler, Operation) and route.handler.status != 200:
        yield f"- **Status**: {route.handler.status}"


def _who(route: Route) -> str:
    if route.path in PUBLIC_PATHS:
        return f"none: {PUBLIC_PATHS[route.path]}"
    who = "any" if route.role == "user" else f"role {route.role}"
    return f"{who}, endpoint `{route.endpoint}`" if route.endpoint else who


def _errors() -> Iterator[str]:
    yield "| status | code | when | |"
    yield "| --- | --- | --- | --- |"
    for line in (errors.__doc__ or "").splitlines():
        name, _, rest = line.lstrip(" │├└─").partition(" ")
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, DoorError) and kind is not DoorError and kind.status != 499:
            when = rest.strip().lstrip("0123456789").strip()
            again = "`Retry-After`" if kind.retry_after else "" if kind.may_retry else "not again"
            status = "its own" if kind is errors.EngineRefused else kind.status
            yield f"| {status} | {f'`{kind.code}`' if kind.code else ''} | {when} | {again} |"


def _type(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {_short(name)}"
    yield ""
    if said := schema.get("description", ""):
        yield " ".join(said.split())
        yield ""
    if "properties" not in schema:
        yield _spelled(schema)
        return
    yield "| field | is |"
    yield "| --- | --- |"
    required = schema.get("required", ())
    for field, inside in schema["properties"].items():
        default = inside.get("default")
        default_said = "" if default in (None, "") else f", default `{json.dumps(default, ensure_ascii=False)}`"
        yield f"| `{field}`{'' if field in required else '?'} | {_spelled(inside)}{default_said} |"


def _short(name: str) -> str:
    """Of two types of one name each has its module before it, of which the last parts tell them apart."""
    return ".".join(name.split(".")[-3:]).replace("_", "")


def _spelled(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = _short(str(schema["$ref"]).removeprefix("#/"))
        return f"[{name}](#{name.lower().replace('.', '')})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_spelled, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_spelled(schema.get('items') or {})}{_bounds(schema)}"
    if schema.get("type") == "object":
        inside = schema.get("additionalProperties")
        return f"object of {_spelled(inside)}" if isinstance(inside, dict) and inside else "object"
    return f"{schema.get('type', 'any')}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    spelled = [
        f"{sign} {schema[name]:g}"
        for sign, names in {
            "≥": ("minimum", "minLength", "minItems"),
            ">": ("exclusiveMinimum",),
            "≤": ("maximum", "maxLength", "maxItems"),
            "<": ("exclusiveMaximum",),
        }.items()
        for name in names
        if abs(schema.get(name, _NO_BOUND)) < _NO_BOUND
    ]
    return f" ({', '.join(spelled)})" if spelled else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The API reference, from the code.")
    parser.add_argument("--write", action="store_true", help="Into api.md, instead of showing it.")
    if parser.parse_args().write:
        FILE.write_text(text(), "utf-8")
    else:
        print(text(), end="")  # noqa: T201
