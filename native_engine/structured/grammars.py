"""From what was asked for (a JSON schema, a pattern, choices, a grammar) to the text of a grammar. Knows no request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from llguidance import LLMatcher, StructTag
from llguidance.gbnf_to_lark import GbnfToLarkError, any_to_lark

from backends.wire.errors import InvalidRequest
from native_engine.structured.composing import BLANKS

ANY_OBJECT = {"type": "object"}
_KINDS = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")


class _Structure(msgspec.Struct):
    begin: str
    schema: dict[str, Any]
    end: str


class _StructuralTag(msgspec.Struct):
    """As vLLM has it."""

    structures: Annotated[list[_Structure], msgspec.Meta(min_length=1)]
    triggers: list[str]


class Form(NamedTuple):
    """`field`: where the grammar came from, as errors name it."""

    grammar: str
    field: str


def structured_form(wanted: Mapping[str, Any]) -> Form | None:
    """`structured_outputs` as vLLM has them: one of the kinds, and what it is to be. Raises InvalidRequest."""
    given = {name: value for name, value in wanted.items() if value is not None and value is not False}
    for name in given:
        if name not in _KINDS:
            raise InvalidRequest(
                f"'structured_outputs.{name}' is not supported by this engine.",
                f"structured_outputs.{name}",
                "unsupported_parameter",
            )
    if not given:
        return None
    if len(given) > 1:
        raise _invalid(f"'structured_outputs' takes one of {', '.join(_KINDS)}.", "structured_outputs")
    ((kind, value),) = given.items()
    return Form(_grammar(kind, value), f"structured_outputs.{kind}")


def schema_grammar(schema: Any) -> str:
    return LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides={"whitespace_pattern": BLANKS})


def schema_form(schema: dict[str, Any], field: str) -> Form:
    try:
        return Form(schema_grammar(schema), field)
    except ValueError as fault:  # the library reads no JSON that is nested deeper than it likes
        raise _invalid(f"'{field}' cannot be used: {fault}.", field) from fault


def _grammar(kind: str, value: Any) -> str:
    field = f"structured_outputs.{kind}"
    if kind == "json_object":
        return schema_grammar(ANY_OBJECT)
    if kind == "json":
        return schema_form(_object(value, field, "a JSON schema"), field).grammar
    if kind == "structural_tag":
        return _tags(_object(value, field, "structures and triggers"), field)
    if kind == "choice":
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
            raise _invalid(f"'{field}' must be a list of texts, none of them empty.", field)
        return LLMatcher.grammar_from_lark("start: " + " | ".join(json.dumps(each) for each in value))
    if not isinstance(value, str) or not value:
        raise _invalid(f"'{field}' must be a text that is not empty.", field)
    return LLMatcher.grammar_from_regex(value) if kind == "regex" else LLMatcher.grammar_from_lark(_lark(value, field))


def _tags(value: dict[str, Any], field: str) -> str:
    """Free text, in which whatever begins with a trigger keeps to the schema of its structure."""
    try:
        wanted = msgspec.convert(value, _StructuralTag)
    except msgspec.ValidationError as fault:
        raise _invalid(f"'{field}' must hold 'structures' and 'triggers': {fault}.", field) from fault
    tags = []
    for each in wanted.structures:
        trigger = next((trigger for trigger in wanted.triggers if trigger and each.begin.startswith(trigger)), None)
        if trigger is None:
            raise _invalid(f"'{field}': no trigger begins '{each.begin[:100]}'.", field)
        schema = each.schema | {"x-guidance": {"whitespace_pattern": BLANKS}}
        tags.append(StructTag(trigger=trigger, begin=each.begin, grammar=schema, end=each.end))
    return StructTag.to_grammar(tags, assume_special=False)


def _object(value: Any, field: str, what: str) -> dict[str, Any]:
    """An object, or its text."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as fault:
        raise _invalid(f"'{field}' is not valid JSON: {fault}.", field) from fault
    if not isinstance(found, dict):
        raise _invalid(f"'{field}' must be {what}, an object.", field)
    return found


def _lark(text: str, field: str) -> str:
    """Lark as it is, GBNF translated."""
    try:
        return any_to_lark(text)
    except (GbnfToLarkError, RecursionError) as fault:
        raise _invalid(f"'{field}' is not a valid grammar: {fault}.", field) from fault


def _invalid(message: str, field: str) -> InvalidRequest:
    return InvalidRequest(message, field, "invalid_value")
