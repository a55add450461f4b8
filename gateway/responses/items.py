"""The items of a response while they grow, and the events that tell how. Knows no chunk, no order and no number."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]

IN_PROGRESS, COMPLETED, INCOMPLETE = "in_progress", "completed", "incomplete"


def event(type_: str, **fields: Any) -> Fields:
    return {"type": type_, **fields}


class TextPart:
    """A part of a message or of a thought. `kind`: output_text, refusal or reasoning_text."""

    def __init__(self, kind: str, place: Fields) -> None:
        self.kind = kind
        self._place = place  # item_id, output_index, content_index
        self._text: list[str] = []
        self._logprobs: list[Fields] = []

    def open(self) -> list[Fields]:
        return [event("response.content_part.added", **self._place, part=self.whole())]

    def grow(self, text: str, logprobs: list[Fields]) -> list[Fields]:
        self._text.append(text)
        self._logprobs += logprobs
        more = {"logprobs": logprobs} if self.kind == "output_text" else {}
        return [event(f"response.{self.kind}.delta", **self._place, delta=text, **more)]

    def close(self) -> list[Fields]:
        whole = self.whole()
        told = {name: whole[name] for name in ("text", "refusal", "logprobs") if name in whole}
        return [
            event(f"response.{self.kind}.done", **self._place, **told),
            event("response.content_part.done", **self._place, part=whole),
        ]

    def whole(self) -> Fields:
        text = "".join(self._text)
        if self.kind == "output_text":
            return {"type": self.kind, "text": text, "annotations": [], "logprobs": list(self._logprobs)}
        return {"type": self.kind, "refusal" if self.kind == "refusal" else "text": text}


class TextItem:
    """A message or a thought: parts, of which the last may be open."""

    def __init__(self, type_: str, id_: str, index: int) -> None:
        self.type = type_  # message or reasoning
        self._id = id_
        self._index = index
        self._parts: list[TextPart] = []
        self._status = IN_PROGRESS

    def open(self) -> list[Fields]:
        return [event("response.output_item.added", output_index=self._index, item=self.whole())]

    def grow(self, kind: str, text: str, logprobs: list[Fields]) -> list[Fields]:
        """The empty text opens a part that nothing is said in."""
        told = []
        if not self._parts or self._parts[-1].kind != kind:
            told += self._close_part()
            place = {"item_id": self._id, "output_index": self._index, "content_index": len(self._parts)}
            self._parts.append(TextPart(kind, place))
            told += self._parts[-1].open()
        return told + (self._parts[-1].grow(text, logprobs) if text else [])

    def close(self, status: str) -> list[Fields]:
        told = self._close_part()
        self._status = status
        return [*told, event("response.output_item.done", output_index=self._index, item=self.whole())]

    def _close_part(self) -> list[Fields]:
        return self._parts[-1].close() if self._parts else []

    def whole(self) -> Fields:
        parts = [part.whole() for part in self._parts]
        item: Fields = {"id": self._id, "type": self.type, "status": self._status, "content": parts}
        more: Fields = {"role": "assistant"} if self.type == "message" else {"summary": []}
        return item | more


class CallItem:
    """A function that the client is to call."""

    def __init__(self, id_: str, index: int, call_id: str, name: str) -> None:
        self._id = id_
        self._index = index
        self._call_id = call_id
        self._name = name
        self._arguments: list[str] = []
        self._status = IN_PROGRESS

    def open(self) -> list[Fields]:
        return [event("response.output_item.added", output_index=self._index, item=self.whole())]

    def grow(self, arguments: str) -> list[Fields]:
        self._arguments.append(arguments)
        place = {"item_id": self._id, "output_index": self._index}
        return [event("response.function_call_arguments.delta", **place, delta=arguments)]

    def close(self, status: str) -> list[Fields]:
        self._status = status
        whole = self.whole()
        told = {"item_id": self._id, "output_index": self._index, "name": self._name}
        return [
            event("response.function_call_arguments.done", **told, arguments=whole["arguments"]),
            event("response.output_item.done", output_index=self._index, item=whole),
        ]

    def whole(self) -> Fields:
        return {
            "id": self._id,
            "type": "function_call",
            "status": self._status,
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._arguments),
        }
