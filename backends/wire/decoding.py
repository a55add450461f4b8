"""Bytes to a struct, or an `InvalidRequest` that names the field and what was expected. Knows no schema."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from backends.wire.errors import InvalidRequest
from backends.wire.nesting import MAX_DEPTH, is_deeper_than

MAX_NAME_CHARACTERS = 100

T = TypeVar("T")

_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode(decoder: msgspec.json.Decoder[T], body: bytes, extra: frozenset[str] = frozenset()) -> T:
    """A whole body. `extra`: names beyond the decoder's own that a setting lets through unread."""
    _check_bytes(body)
    if extra:
        fields = decode_part(_OBJECT, body)
        body = msgspec.json.encode({name: value for name, value in fields.items() if name not in extra})
    return decode_part(decoder, body)


def decode_part(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw, where: str = "") -> T:
    """A piece that was left undecoded in a body; `where` it stood, such as `input[2]`."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise explained(str(error), where) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}.", code="invalid_json") from None


def _check_bytes(body: bytes) -> None:
    if not body.strip():
        raise InvalidRequest("The request body is empty. Send a JSON object.", code="invalid_json")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"The request body is not valid UTF-8 (at byte {error.start}).", code="invalid_json"
        ) from None
    if is_deeper_than(body):
        raise InvalidRequest(f"The request body is nested more than {MAX_DEPTH} levels deep.", code="invalid_json")


_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`\Z")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_GOT = re.compile(r"Expected `(.*)`, got `(.*)`")
_JSON_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def explained(text: str, inside: str = "") -> InvalidRequest:
    """msgspec's account ("Expected `float` <= 2.0 - at `$.temperature`") in the official service's words."""
    place = _PLACE.search(text)
    problem = text[: place.start()] if place else text
    where = (inside + place["path"] if place else inside).removeprefix(".")
    if unknown := _UNKNOWN_FIELD.fullmatch(problem):
        name = _joined(where, unknown[1])
        return InvalidRequest(f"Unrecognized request argument supplied: {name}", name, "unknown_parameter")
    if missing := _MISSING_FIELD.fullmatch(problem):
        return missing_field(_joined(where, missing[1]))
    if got := _GOT.fullmatch(problem):
        subject = f"'{where}'" if where else "the request body"
        message = f"Invalid type for {subject}: expected {_type_names(got[1])}, but got {_type_names(got[2])} instead."
        return InvalidRequest(message, where or None, "invalid_type")
    subject = f"a key of '{where}'" if place and place["key"] else f"'{where}'"
    return InvalidRequest(f"Invalid value for {subject}: {_plain(problem)}.", where or None, "invalid_value")


def missing_field(name: str) -> InvalidRequest:
    return InvalidRequest(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def _joined(where: str, name: str) -> str:
    name = name[:MAX_NAME_CHARACTERS]  # the client chose it, and it comes back in the answer and the logs
    return f"{where}.{name}" if where else name


def _type_names(names: str) -> str:
    wanted = [name for name in names.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_JSON_NAMES.get(name, name) for name in wanted)


def _plain(problem: str) -> str:
    words = re.sub("`([a-z]+)`", lambda found: _JSON_NAMES.get(found[1], found[1]), problem)
    return words[:1].lower() + words[1:]
