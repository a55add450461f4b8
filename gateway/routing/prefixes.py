"""Which prompts begin alike, and where such a beginning is warm. Holds hashes, never a prompt. Pure.

A prompt is a chain of links: hashes over longer and longer beginnings of its text, under a salt of tenant and model, so
that nobody learns by being quick what others have asked. A client may name its beginning: the name is the first link.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from backends.base import Fields

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

_LINK_BYTES = 16
_FIRST_BLOCK = 512
_GROWTH = 1.17
_MOST_BYTES = 65_536
# A beginning as short as many share by chance, or by one common system prompt, draws nobody anywhere.
LEAST_BYTES = 1024
# What a name alone is worth where the text after it is not warm.
_NAMED_BYTES = 1024
# Of a cache that an engine measures in tokens.
_BYTES_PER_TOKEN = 4
# What an engine has cached, of what was believed, for the belief to be right. It caches whole blocks, and more than the
# prompt's text is a prompt.
_FOUND_PART = 0.5
_LESS, _MORE = 0.95, 1.01


def _ends() -> tuple[int, ...]:
    ends = [_FIRST_BLOCK]
    while ends[-1] < _MOST_BYTES:
        ends.append(min(max(ends[-1] + _FIRST_BLOCK, int(ends[-1] * _GROWTH)), _MOST_BYTES))
    return tuple(ends)


ENDS = _ends()  # of the blocks, in bytes of the prompt's text


_NOTHING = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    role: msgspec.Raw = _NOTHING
    content: msgspec.Raw = _NOTHING


_MESSAGES: msgspec.json.Decoder[list[_Message]] = msgspec.json.Decoder(list[_Message])


class Link(NamedTuple):
    hash: bytes
    end: int  # bytes of the prompt that it stands for


class Chain(NamedTuple):
    links: tuple[Link, ...] = ()  # `end` grows
    size: int = 0  # bytes of the whole prompt


def chain(tenant: str, model: str, fields: Fields, prefix_id: str = "") -> Chain:
    """Of a chat or completion request, from its fields' bytes; of any other, one without links."""
    text, size = _text(fields)
    hasher = sha256(_salt(tenant, model) + prefix_id.encode())
    links = [Link(_digest(hasher), min(_NAMED_BYTES, size))] if prefix_id and size else []
    start = 0
    for end in ENDS:
        if end > len(text):
            break
        hasher.update(text[start:end])
        if end >= LEAST_BYTES:
            links.append(Link(_digest(hasher), end))
        start = end
    return Chain(tuple(links), size)


def _digest(hasher: Hash) -> bytes:
    return hasher.copy().digest()[:_LINK_BYTES]


@lru_cache(maxsize=1024)
def _salt(tenant: str, model: str) -> bytes:
    """Of fixed length, so that what comes after it cannot be taken for a part of it."""
    return sha256(f"{len(tenant)} {tenant}{model}".encode()).digest()


def _text(fields: Fields) -> tuple[bytes, int]:
    """The prompt as an engine would read it, near enough: tools, roles and contents in their order. Its beginning, and
    the bytes of the whole."""
    if "messages" in fields:
        messages = _MESSAGES.decode(fields["messages"])
        parts = [fields.get("tools", _NOTHING)]
        parts += (part for message in messages for part in (message.role, message.content))
    else:
        parts = [fields.get("prompt", _NOTHING)]
    beginning, size = bytearray(), 0
    for part in parts:
        view = memoryview(part)
        size += 1 + len(view)
        if len(beginning) < _MOST_BYTES:
            beginning += b"\n"
            beginning += view[:_MOST_BYTES]
    return bytes(beginning[:_MOST_BYTES]), size


class _Warm:
    """Of one backend: its links, those used last at the end. A link is never older than one that goes on from it."""

    def __init__(self) -> None:
        self.links: OrderedDict[bytes, int] = OrderedDict()  # > bytes that it adds to the link before it
        self.bytes = 0
        self.room = math.inf  # bytes that its cache holds, as learned
        self.reports = False  # it says what it found in its cache

    def note(self, links: Sequence[Link]) -> None:
        starts = [0, *(link.end for link in links)]
        for link, start in reversed(list(zip(links, starts, strict=False))):
            if link.hash not in self.links:
                self.links[link.hash] = max(0, link.end - start)
                self.bytes += max(0, link.end - start)
            self.links.move_to_end(link.hash)

    def learn(self, believed: float, cached: float) -> None:
        """Less is cached than was believed: what is kept here is more than what its cache holds. Right: it may be."""
        self.reports = self.reports or cached > 0
        if self.reports and cached < believed * _FOUND_PART:
            self.room = min(self.room, self.bytes) * _LESS
        elif believed and self.bytes > self.room * _LESS:
            self.room *= _MORE

    def shrink(self, most_links: int, most_bytes: float) -> None:
        while self.links and (len(self.links) > most_links or self.bytes > min(most_bytes, self.room)):
            self.bytes -= self.links.popitem(last=False)[1]

    def matched(self, chain: Chain) -> int:
        """Bytes of the prompt that are warm."""
        end = 0
        for link in chain.links:
            if link.hash not in self.links:
                break
            end = link.end
        return end


class PrefixMap:
    """`max_entries`: links remembered of each backend, those used longest ago forgotten first."""

    def __init__(self, max_entries: int = 50_000) -> None:
        self._most = max_entries
        self._warm: dict[str, _Warm] = {}

    def note(self, chain: Chain, backend: str, kv_tokens: int | None = None) -> None:
        """The prompt got its first token there. `kv_tokens`: what that backend's cache holds in all, where known."""
        warm = self._warm.setdefault(backend, _Warm())
        warm.note(chain.links)
        warm.shrink(self._most, kv_tokens * _BYTES_PER_TOKEN if kv_tokens else math.inf)

    def learn(self, backend: str, believed: float, cached: float) -> None:
        """What its engine counted: the part of a prompt that was cached, where `believed` was thought to be warm.

        Teaches how much its cache holds beside all else that it is used for. One that never tells teaches nothing.
        """
        if (warm := self._warm.get(backend)) is not None:
            warm.learn(believed, cached)

    def forget(self, backend: str) -> None:
        """It has restarted, or cleared its cache."""
        self._warm.pop(backend, None)

    def warm(self, chain: Chain) -> dict[str, float]:
        """Backend > part of the prompt that is warm there, 0 to 1; those where nothing is are left out."""
        found = {name: warm.matched(chain) for name, warm in self._warm.items()}
        return {name: end / chain.size for name, end in found.items() if end}
