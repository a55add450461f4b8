"""The form that an answer must have, as a request asks for it: response_format or structured_outputs."""

from __future__ import annotations

from backends.wire.errors import InvalidRequest
from backends.wire.schema import ChatRequest, CompletionRequest, ResponseFormat
from native_engine.structured.grammars import ANY_OBJECT, Form, schema_form, structured_form


def form_of(request: ChatRequest | CompletionRequest) -> Form | None:
    """None where any text will do. Raises InvalidRequest."""
    official = _of_format(request.response_format) if isinstance(request, ChatRequest) else None
    extended = structured_form(request.structured_outputs or {})
    if extended and official:
        raise _invalid("'structured_outputs' and 'response_format' exclude each other.", extended.field)
    form = official or extended
    if form is not None:
        check_free_to_end(request)
    return form


def check_free_to_end(request: ChatRequest | CompletionRequest) -> None:
    """A form ends where it ends."""
    for name in ("min_tokens", "ignore_eos"):
        if getattr(request, name):
            raise _invalid(f"'{name}' cannot be combined with a prescribed form of the answer.", name)


def _of_format(wanted: ResponseFormat | None) -> Form | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return schema_form(ANY_OBJECT, "response_format")
    schema = (wanted.json_schema or {}).get("schema")
    if not isinstance(schema, dict):
        raise _invalid(
            "'response_format.json_schema.schema' must be a JSON schema, an object.",
            "response_format.json_schema.schema",
        )
    return schema_form(schema, "response_format.json_schema.schema")


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, field, "invalid_value")
