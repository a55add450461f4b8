"""Figures and names as a narrow table shows them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

_BLOCKS = " ▁▂▃▄▅▆▇█"
_UNITS = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def inert(text: str) -> str:
    """Names come from providers and clients: none may move the cursor or colour the screen."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Exactly so many cells wide; what is cut off is told by an ellipsis. Wide letters take two cells."""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…" if width else ""
    return " " * (width - size) + text if right else text + " " * (width - size)


def count(value: float | None) -> str:
    """Four figures or fewer, with a unit."""
    if value is None:
        return "-"
    for size, unit in _UNITS:
        if value >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 99.95 else f"{scaled:.0f}{unit}"
    return f"{value:.1f}" if 0 < value < 9.95 and value != int(value) else f"{value:.0f}"


def share(value: float | None) -> str:
    """Whatever is more than nothing is seen."""
    if value is None:
        return "-"
    return "<1%" if 0 < value < 0.005 else f"{value:.0%}"


def seconds(value: float | None) -> str:
    """24ms, 0.31s, 12s, 3m05, 2h40. What was measured in whole seconds is told in them."""
    if value is None:
        return "-"
    if value < 0.0995 and isinstance(value, float):
        return f"{value * 1000:.0f}ms"
    if value < 9.95 and isinstance(value, float):
        return f"{value:.2f}s" if value < 0.995 else f"{value:.1f}s"
    whole = round(value)
    if whole < 100:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:
        return f"{minutes}m{rest:02}"
    return f"{minutes // 60}h{minutes % 60:02}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The newest at the right; each letter is the mean of its part, the tallest the largest of them."""
    if not values or width <= 0:
        return " " * max(0, width)
    # As many slots a letter as fill the width, whole ones, so that a letter stays what it is while it wanders.
    each = max(1, -(-len(values) // width))
    parts = [values[max(0, end - each) : end] for end in range(len(values), 0, -each)][:width]
    means = [sum(part) / len(part) for part in parts][::-1]
    most = max(means)
    line = "".join(_BLOCKS[_level(mean / most if most else 0.0)] for mean in means)
    return " " * (width - len(line)) + line


def _level(part: float) -> int:
    return min(8, max(1, round(part * 8))) if part > 0 else 0
