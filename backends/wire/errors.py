"""The OpenAI error object: writing ours, and reading what foreign engines send in its place.

Knows nothing of HTTP servers: callers choose the status line and headers.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

MAX_MESSAGE_CHARACTERS = 1000


class InvalidRequest(ValueError):
    """The client's mistake: answered with 400, `param` naming the field to mend."""

    status = 400
    type = "invalid_request_error"

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> bytes:
        return error_body(self.message, self.type, self.param, self.code)


def error_body(message: str, type_: str, param: str | None = None, code: str | None = None) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": type_, "param": param, "code": code}})


class ForeignError(NamedTuple):
    """An engine's error in the official vocabulary, safe to show to a user."""

    status: int
    message: str
    type: str
    code: str | None


def normalise(status: int, body: bytes) -> ForeignError:
    """Read an engine's error, whatever its shape: nested, flat, a bare string, `detail`, or plain text.

    `status` is that of the HTTP answer; an error inside a stream arrives under 200 and carries its own.
    """
    fields = _fields(body)
    status = _status(status, fields)
    message = _clean(_message(fields)) or _DEFAULT_MESSAGES.get(status, "The engine could not answer this request.")
    return ForeignError(status, message, _TYPES.get(status, _type_of_range(status)), _code(status, message, fields))


def _fields(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {"message": body.decode(errors="replace")}
    if not isinstance(value, dict):
        return {"message": str(value)}
    error = value.get("error")
    if isinstance(error, dict):
        return error
    return {"message": error} if isinstance(error, str) else value


def _status(status: int, fields: dict[str, Any]) -> int:
    if status >= 400:
        return status
    code = fields.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else 502


def _message(fields: dict[str, Any]) -> str:
    message = fields.get("message", fields.get("detail", ""))
    if isinstance(message, str):
        return message
    if isinstance(message, list):  # FastAPI's form of a validation error
        return "; ".join(str(item.get("msg", "")) for item in message if isinstance(item, dict))
    return ""


# Pydantic's errors, as Python dictionaries or as text, echo the input and may end in server-side file positions.
_PYDANTIC = re.compile(r"""'msg': (?:'([^']*)'|"([^"]*)")|^ *(.+?) \[type=\w+, input_value=""", re.MULTILINE)
_FILE_POSITION = re.compile(r"\s*(?:File \"|Traceback \(most recent).*", re.DOTALL)
_PATH = re.compile(r"(?<![\w:/.])(?!/v1/|/api/)(?:/[\w.@+-]+){2,}/?(?::\d+)?|\b[A-Za-z]:\\[^\s\"']+")


def _clean(message: str) -> str:
    if said := ["".join(groups) for groups in _PYDANTIC.findall(message)]:
        message = "; ".join(dict.fromkeys(said))
    message = _FILE_POSITION.sub("", message)
    return _PATH.sub("(path)", message).strip()[:MAX_MESSAGE_CHARACTERS]


_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
_DEFAULT_MESSAGES = {
    500: "The engine failed on this request.",
    503: "The engine is not ready or has no room. Try again shortly.",
}


def _type_of_range(status: int) -> str:
    return "invalid_request_error" if status < 500 else "server_error"


_TOO_LONG = re.compile(r"context (?:length|size|window)|maximum model length", re.IGNORECASE)
_NO_MODEL = re.compile(r"\bmodel\b.*\b(?:not found|does not exist)", re.IGNORECASE)


def _code(status: int, message: str, fields: dict[str, Any]) -> str | None:
    code = fields.get("code")
    if isinstance(code, str) and not code.isdigit():
        return code
    if fields.get("type") == "exceed_context_size_error" or (status == 400 and _TOO_LONG.search(message)):
        return "context_length_exceeded"
    return "model_not_found" if status == 404 and _NO_MODEL.search(message) else None
