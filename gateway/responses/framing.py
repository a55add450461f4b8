"""How a response is written to its client: as typed events, or whole."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.errors import DoorError
from gateway.responses.answer import Answer
from gateway.responses.chunks import chunk_of, chunk_of_whole

_DONE = b"[DONE]"


class EventFraming:
    """Of chat events, the official typed events, numbered; the last one tells how it ended, and there is no [DONE]."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._number = 0

    def events(self, events: list[bytes]) -> bytes:
        """Raises EngineBroken."""
        chunks = [None if event == _DONE else chunk_of(event) for event in events]
        return b"".join(self.end() if chunk is None else self._framed(self._answer.take(chunk)) for chunk in chunks)

    def end(self) -> bytes:
        return self._framed(self._answer.end())

    def error(self, error: DoorError) -> bytes:
        return self._framed(self._answer.fail(error))

    def _framed(self, told: list[dict[str, Any]]) -> bytes:
        framed = []
        for event in told:
            data = msgspec.json.encode(event | {"sequence_number": self._number})
            framed.append(b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n")
            self._number += 1
        return b"".join(framed)


def whole_response(answer: Answer, chat: dict[str, Any]) -> dict[str, Any]:
    """Of a whole chat answer. Raises EngineBroken."""
    answer.take(chunk_of_whole(chat))
    answer.end()
    return answer.whole()
