"""What a record is: a frozen struct with an id, stored as JSON, of which the secret fields are never shown."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is unique within its kind: lower case letters, digits and `_ - .`, never changed."""

    kind: ClassVar[str]
    # Never shown, not even in the audit trail.
    secret_fields: ClassVar[frozenset[str]] = frozenset()

    id: str
    created: int = 0  # Unix seconds

    def public(self) -> dict[str, Any]:
        """All fields, defaults too, less the secret ones."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__ if name not in self.secret_fields}
        built: dict[str, Any] = msgspec.to_builtins(shown)
        return built


AnyRecord = TypeVar("AnyRecord", bound=Record)


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)


def decode(data: bytes, kind: type[AnyRecord]) -> AnyRecord:
    return msgspec.json.decode(data, type=kind)
