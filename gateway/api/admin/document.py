"""/admin/v1/openapi.json: the document of the operations that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gateway.api import openapi
from gateway.api.admin.operation import Asked, Operation


def operation(described: Sequence[Operation]) -> Operation:
    made = cache(lambda: openapi.document(described))

    async def openapi_document(asked: Asked) -> dict[str, Any]:
        """This document"""
        return made()

    return Operation("GET", "/admin/v1/openapi.json", openapi_document)
