"""Completions on disk as they come, so that a long run that was cut off goes on where it was. Knows no engine.

JSON Lines: the first says which model it is of, each other is one completion under the hash of what was asked. A last
line without its end was never a completion, and is cut off.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
from array import array
from collections import defaultdict, deque
from collections.abc import Mapping
from collections.abc import Sequence as ListLike
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any

from native_engine.request import SamplingParams

_VERSION = 1

Entry = Mapping[str, Any]


class JournalFault(ValueError):
    """The file is no journal, one of another model, or in use; the message says what to do."""


class Journal:
    """One writer at a time. Raises JournalFault on opening; nothing is written before the first `add`."""

    def __init__(self, path: str | Path, model: str) -> None:
        self._path, self._model = Path(path), model
        self._known: dict[str, deque[Entry]] = defaultdict(deque)
        self._file = self._path.open("a+b")
        try:
            self._lock()
            self._file.truncate(self._read())
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def take(self, key: str) -> Entry | None:
        """A completion of an earlier run, each once: who asks the same three times gets three answers."""
        return self._known[key].popleft() if self._known[key] else None

    def add(self, key: str, entry: Entry) -> None:
        if not self._file.tell():
            self._write({"journal": _VERSION, "model": self._model})
        self._write({"key": key, **entry})

    def _write(self, value: Entry) -> None:
        self._file.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalFault(f"{self._path} is being written by another run; give each run its own file") from None

    def _read(self) -> int:
        """Takes in what is there; the size of what is whole."""
        self._file.seek(0)
        size = 0
        for number, line in enumerate(self._file):
            if not line.endswith(b"\n"):
                break
            self._take_in(number, line)
            size += len(line)
        return size

    def _take_in(self, number: int, line: bytes) -> None:
        try:
            value = json.loads(line)
            if number:
                self._known[value.pop("key")].append(value)
                return
            version, model = value["journal"], value["model"]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise JournalFault(
                f"{self._path}, line {number + 1}: this is no journal of completions; give another file"
            ) from None
        if (version, model) != (_VERSION, self._model):
            raise JournalFault(
                f"{self._path} holds completions of {model!r} (version {version}), not of {self._model!r}; "
                "give another file"
            )


def key_of(prompt: ListLike[int], params: SamplingParams, grammar: str = "") -> str:
    """The same for the same tokens under the same parameters, in any process. `grammar`: the form of the answer."""
    fields = dataclasses.asdict(params) | {"grammar": grammar}
    asked = json.dumps(fields, sort_keys=True, default=sorted)  # sets have no order of their own
    return sha256(array("q", prompt).tobytes() + asked.encode()).hexdigest()
