"""YAML that people write: what stands twice is a fault, and of each value it is known in which line it stands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import yaml


class Loader(yaml.SafeLoader):
    """What stands twice is a fault: otherwise the last would win, unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Where the value at `path` stands, counted from 1; of what is missing there, where the nearest around it does."""
    node, line = yaml.compose(text, Loader=yaml.SafeLoader), None
    for part in path:
        below = _below(node, part)
        if below is None:
            break
        line, node = below
    return line


def _below(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    """The line of what is named, and the value."""
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        value = node.value[part]
        return value.start_mark.line + 1, value
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    return None
