"""Keys by name, from what terminals send."""

from __future__ import annotations

import contextlib
import os
import pty
import termios
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.top.keyboard import Keyboard, keys_of
from tests.gateway.conftest import eventually


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page-up", "page-down", "home", "end"]),
        ("\t\x1b[Z\r\x7f", ["tab", "back-tab", "enter", "backspace"]),
        ("\x1b", ["escape"]),
        ("田k", ["田", "k"]),
        ("\x1b[15~\x1b[1;5Cq", ["q"]),
        ("\x00\x07", []),
    ],
)
def test_keys_are_told_by_name(sent: str, keys: list[str]) -> None:
    assert keys_of(sent) == keys


@given(st.text())
def test_whatever_is_sent_is_keys_or_nothing(sent: str) -> None:
    assert all(key.isprintable() for key in keys_of(sent))


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The end that a person types at, and the program's."""
    master, slave = pty.openpty()
    yield master, slave
    for end in (master, slave):
        os.close(end)


async def test_a_terminal_tells_keys_at_once_and_is_left_as_it_was(terminal: tuple[int, int]) -> None:
    person, program = terminal
    before, pressed = termios.tcgetattr(program), list[str]()
    with Keyboard(program, pressed.append):
        assert not termios.tcgetattr(program)[3] & termios.ECHO
        assert termios.tcgetattr(program)[6][termios.VSUSP] == b"\0"  # Ctrl-Z stops nothing
        os.write(person, b"k\x1b[B" + "田".encode()[:1])
        await eventually(lambda: pressed == ["k", "down"], seconds=20)
        os.write(person, "田".encode()[1:])
        await eventually(lambda: pressed == ["k", "down", "田"], seconds=20)
    assert termios.tcgetattr(program) == before


async def test_a_sequence_in_pieces_is_one_key_and_escape_alone_is_another(terminal: tuple[int, int]) -> None:
    person, program = terminal
    pressed = list[str]()
    with Keyboard(program, pressed.append) as keyboard:
        for piece in (b"\x1b", b"[", b"6", b"~"):
            keyboard.heard(piece)
        assert pressed == ["page-down"]
        os.write(person, b"\x1b")
        await eventually(lambda: pressed == ["page-down", "escape"], seconds=20)


async def test_a_failure_leaves_the_terminal_as_it_was_too(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])
    with contextlib.suppress(RuntimeError), Keyboard(terminal[1], lambda key: None):
        raise RuntimeError
    assert termios.tcgetattr(terminal[1]) == before
