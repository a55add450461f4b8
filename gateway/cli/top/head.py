"""The lines above the tables: bars, speeds and times, who waits, what fails. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from gateway.cli.top.columns import FULL, LATE, UNMET
from gateway.cli.top.formats import count, fitted, inert, seconds, share, sparkline
from gateway.cli.top.rows import Head

Part = tuple[str, str]  # text, style

_TWO_COLUMNS = 70
_MOST_FAILURES = 4
_MOST_UNFIT = 3
_MOST_ALERTS = 3


def line(width: int, *parts: Part) -> Text:
    """Exactly `width` cells. What is in the parts is shown as it stands, never read as markup."""
    text = Text(no_wrap=True)
    for part, style in parts:
        text.append(part, style)
    text.truncate(width, overflow="crop", pad=True)
    return text


def head_lines(head: Head, place: str, every: float, paused: bool, width: int) -> list[Text]:
    left, right = _gauges(head), _figures(head)
    found = [title(head, place, every, paused, width)]
    if width < _TWO_COLUMNS:
        found += [line(width, *_bar(gauge, width)) for gauge in left]
        found += [line(width, *_spoken(figure, width)) for figure in right]
    else:
        half = width // 2 - 1
        for gauge, figure in zip(left, right, strict=True):
            found.append(line(width, *_bar(gauge, half), ("  ", ""), *_spoken(figure, width - half - 2)))
    found.append(_waits(head, width))
    if head.failures:
        found.append(_failures(head, width))
    wrong = (*head.unfit[:_MOST_UNFIT], *head.alerts[:_MOST_ALERTS])
    found += [line(width, (f" {inert(text)}", "bold red")) for text in wrong]
    return found


def title(head: Head, place: str, every: float, paused: bool, width: int) -> Text:
    gateways = "1 gateway" if head.gateways == 1 else f"{head.gateways} gateways"
    parts = [
        (" sekisho top ", "bold reverse"),
        (f" {inert(place)}  {gateways}  {time.strftime('%H:%M:%S', time.localtime(head.at))}", ""),
    ]
    if every:
        parts.append((f"  every {every:g}s", "dim"))
    if paused:
        parts.append(("  PAUSED", "bold yellow"))
    return line(width, *parts)


class _Gauge(NamedTuple):
    name: str
    full: float  # 0 to 1
    text: str
    style: str


class _Figure(NamedTuple):
    name: str
    parts: list[Part]
    curve: Sequence[int] | None = None  # drawn behind them, as wide as there is room


def _gauges(head: Head) -> list[_Gauge]:
    waiting = sum(wait.waiting for wait in head.waits)
    permits = max(1, head.permits)
    name, full = head.fullest or ("", 0.0)
    of = f"{share(full)} {inert(name)}" if head.fullest else "not known"
    return [
        _Gauge("Running", head.running / permits, f"{head.running}/{head.permits}", "green"),
        _Gauge("Waiting", waiting / permits, str(waiting), "yellow"),
        _Gauge("KV", full, of, "red" if full >= FULL else "blue"),
        _Gauge("Cached", head.cached or 0.0, share(head.cached), "cyan"),
    ]


def _bar(gauge: _Gauge, width: int) -> list[Part]:
    """Name[||||    text], as htop draws it: what is full is told by strokes, not by colour alone."""
    name, full, text, style = gauge
    room = max(0, width - 10)
    text = fitted(text, min(room, max(len(text), 1) + 1), right=True)
    strokes = min(round(min(1.0, full) * room), room - len(text)) if full else 0
    strokes = max(strokes, 1) if full > 0 and room > len(text) else strokes
    return [
        (f" {name:<7}", "bold"),
        ("[", ""),
        ("|" * strokes, style),
        (" " * (room - strokes - len(text)), ""),
        (text, ""),
        ("]", ""),
    ]


def _figures(head: Head) -> list[_Figure]:
    total = head.total
    times: list[Part] = [
        (f"{seconds(total.ttft_p50)}/{seconds(total.ttft_p95)}", "yellow" if (total.ttft_p95 or 0) > LATE else ""),
        (" TPOT ", "bold"),
        (f"{seconds(total.tpot_p50)}/{seconds(total.tpot_p95)}", ""),
        (" p50/95", "dim"),
    ]
    requests: list[Part] = [
        (f"{share(total.goodput)} ", "yellow" if total.goodput is not None and total.goodput < UNMET else ""),
        (f"of {count(total.requests)}/min, preempted ", ""),
        (count(head.preemptions), "red" if head.preemptions else ""),
    ]
    return [
        _Figure("Out", [(f"{count(total.completion_tokens_per_second):>5} tok/s ", "")], head.history_out),
        _Figure("In", [(f"{count(total.prompt_tokens_per_second):>5} tok/s ", "")], head.history_in),
        _Figure("TTFT", times),
        _Figure("Good", requests),
    ]


def _spoken(figure: _Figure, width: int) -> list[Part]:
    name, parts, curve = figure
    found = [(f"{name:<5}", "bold"), *parts]
    if curve is not None:
        used = sum(len(text) for text, _ in found)
        found.append((sparkline(curve, width - used), "green"))
    return found


def _waits(head: Head, width: int) -> Text:
    parts: list[Part] = [(" Run+wait", "bold"), (" (longest)", "dim")]
    for wait in head.waits:
        longest = f" ({seconds(wait.longest)})" if wait.longest is not None else ""
        parts += [
            (f"  {wait.klass} ", ""),
            (f"{wait.running}+{wait.waiting}{longest}", "yellow" if wait.waiting else ""),
        ]
    return line(width, *parts)


def _failures(head: Head, width: int) -> Text:
    parts: list[Part] = [(" Failures (1 min)", "bold red")]
    for code, many in head.failures[:_MOST_FAILURES]:
        parts.append((f"  {many} {inert(code)}", "red"))
    if (more := len(head.failures) - _MOST_FAILURES) > 0:
        parts.append((f"  and {more} more", ""))
    return line(width, *parts)
