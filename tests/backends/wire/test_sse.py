"""The SSE codec: the same bytes give the same events, however they were cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.wire.sse import DONE, Event, EventParser, OversizedEvent, comment, event

STREAMS = Path(__file__).parents[1] / "data" / "streams"


def parse(*chunks: bytes) -> list[Event]:
    parser = EventParser()
    return [found for chunk in chunks for found in parser.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    st.lists(st.text(alphabet="ab:\n日本語👨‍👩‍👧 {}", min_size=1), max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 10_000), max_size=12),
)
def test_any_cut_gives_the_same_events(texts: list[str], newline: bytes, places: list[int]) -> None:
    wire = b"".join(event(text.encode()) + comment("waiting") for text in texts).replace(b"\n", newline)
    assert [found.data.decode() for found in parse(*cut(wire, places))] == texts


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=20))
def test_hostile_bytes_parse_the_same_however_cut(wire: bytes, places: list[int]) -> None:
    assert parse(*cut(wire, places)) == parse(wire)


@pytest.mark.parametrize("stream", sorted(STREAMS.glob("*.sse")), ids=lambda path: path.stem)
def test_recorded_streams_of_real_engines_parse(stream: Path) -> None:
    wire = stream.read_bytes()
    events = parse(wire)
    assert events == parse(*[wire[i : i + 7] for i in range(0, len(wire), 7)])
    assert events[-1].is_done
    assert all(isinstance(msgspec.json.decode(found.data), dict) for found in events[:-1])


def test_the_official_edges_of_the_format() -> None:
    wire = b"\xef\xbb\xbf: hello\nevent: add\ndata:one\ndata\ndata:  two\nid: 7\nretry: 3\n\n\n"
    wire += b"event: lonely\n\ndata: x\n\n"
    assert parse(wire) == [Event(b"one\n\n two", "add"), Event(b"x")]


def test_an_unfinished_event_is_not_an_event() -> None:
    assert parse(b"data: a\n\ndata: b\n") == [Event(b"a")]


def test_done_is_recognised() -> None:
    assert parse(DONE)[0].is_done
    assert not parse(event(b"{}"))[0].is_done


def test_a_comment_cannot_smuggle_an_event() -> None:
    assert parse(comment("a\n\ndata: x\n\n")) == []


@pytest.mark.parametrize("piece", [b"x" * 10, b"data: 123\n"])
def test_an_endless_event_is_refused(piece: bytes) -> None:
    parser = EventParser(max_event_bytes=100)
    pieces = iter([piece] * 20)
    with pytest.raises(OversizedEvent):
        sum(len(parser.feed(piece)) for piece in pieces)
    assert next(pieces)  # refused before the end


def test_the_limit_is_of_one_event_not_of_the_stream() -> None:
    parser = EventParser(max_event_bytes=100)
    assert sum(len(parser.feed(event(b"x" * 50))) for _ in range(50)) == 50
