"""The admin API as an OpenAPI 3.1 document, made of its operations and of the types that they read and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.api.admin.operation import Operation
from gateway.identity.administration.views import View

_TEMPLATE = "#/components/schemas/{name}"
_DESCRIPTION = (
    "Reading needs the role auditor, changing the role admin, and a key whose endpoints hold admin. "
    "Every error is an OpenAI error object."
)


class ErrorDetail(View, frozen=True, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str | None


class Error(View, frozen=True, kw_only=True):
    error: ErrorDetail


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    types = list(dict.fromkeys([Error, *(kind for one in operations for kind in (one.answer, one.described) if kind)]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_type)
    return _in_ecma(
        {
            "openapi": "3.1.0",
            "info": {"title": "Sekisho admin API", "version": "1", "description": _DESCRIPTION},
            "security": [{"key": []}],
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(one: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [one.path.split("/")[3]],
        "parameters": _parameters(one),
        "responses": {
            str(one.status): _answer(one, schemas[one.answer]),
            "default": _content("An error, with what to do about it.", schemas[Error]),
        },
    }
    if one.described is not None:
        needs_one = any(field.required for field in msgspec.structs.fields(one.described))
        content = {"application/json": {"schema": schemas[one.described]}}
        shown["requestBody"] = {"required": needs_one, "content": content}
    return shown


def _answer(one: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    shown = _content("As asked.", schema)
    if one.as_csv is not None:
        shown["content"]["text/csv"] = {"schema": {"type": "string"}}
    return shown


def _parameters(one: Operation) -> list[dict[str, Any]]:
    in_path = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}]
    _, components = msgspec.json.schema_components([one.query])
    fields = components[one.query.__name__]
    in_query = [
        {"name": name, "in": "query", "required": name in fields.get("required", ()), "schema": schema}
        for name, schema in fields["properties"].items()
    ]
    return (in_path if "{id}" in one.path else []) + in_query


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _in_ecma(shown: dict[str, Any]) -> dict[str, Any]:
    """The end of a pattern as JSON Schema spells it: there `$` alone lets no line break through."""
    data = msgspec.json.encode(shown).replace(rb"$(?!\\n)", b"$")
    spelled: dict[str, Any] = msgspec.json.decode(data)
    return spelled
