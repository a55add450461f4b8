"""Keys of a terminal as they are pressed, by name. Knows nothing of what they do."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import termios
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Self

# What terminals send, in both of their modes (ECMA-48 CSI and SS3).
_SEQUENCES = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "back-tab",
    "1~": "home",
    "4~": "end",
    "5~": "page-up",
    "6~": "page-down",
    "7~": "home",
    "8~": "end",
}
_CONTROLS = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape"}
_KEY = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|(.)", re.DOTALL)
_BYTES = 1024
# A sequence may come in pieces over a slow line; the key Esc alone comes with nothing behind it.
_BEGUN = re.compile(r"\x1b([\[O][0-9;]*)?$")
_PIECES_SECONDS = 0.1


def keys_of(text: str) -> list[str]:
    """Letters are themselves; other keys have names; what is neither is left out."""
    found = []
    for sequence, letter in _KEY.findall(text):
        key = _SEQUENCES.get(sequence) if sequence else _CONTROLS.get(letter, letter if letter.isprintable() else None)
        if key is not None:
            found.append(key)
    return found


class Keyboard:
    """The terminal behind `fd` tells each key at once and shows none, until the end of the context."""

    def __init__(self, fd: int, pressed: Callable[[str], None]) -> None:
        self._fd = fd
        self._pressed = pressed
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._waits: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        modes = termios.tcgetattr(self._fd)
        # Stopped with Ctrl-Z it would leave its screen, and a shell that types blindly.
        modes[6][termios.VSUSP] = bytes([os.fpathconf(self._fd, "PC_VDISABLE")])
        termios.tcsetattr(self._fd, termios.TCSADRAIN, modes)
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        if self._waits is not None:
            self._waits.cancel()
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        data = os.read(self._fd, _BYTES)
        if not data:  # the terminal has gone
            asyncio.get_running_loop().remove_reader(self._fd)
            self._pressed("q")
        self.heard(data)

    def heard(self, data: bytes) -> None:
        """Bytes as the terminal sent them."""
        if self._waits is not None:
            self._waits.cancel()
        text = self._begun + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        self._tell(text.removesuffix(self._begun))
        self._waits = asyncio.get_running_loop().call_later(_PIECES_SECONDS, self._give_up) if begun else None

    def _give_up(self) -> None:
        """Nothing more came: it was a key."""
        text, self._begun = self._begun, ""
        self._tell(text)

    def _tell(self, text: str) -> None:
        for key in keys_of(text):
            self._pressed(key)
