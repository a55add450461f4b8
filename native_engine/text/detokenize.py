"""Token ids to text, piece by piece, in whole characters. Knows nothing of stop strings or requests."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

_decoder = codecs.getincrementaldecoder("utf-8")


class IncrementalText:
    """Bytes of a character that is not yet whole are held back until the tokens that finish it arrive.

    Bytes that can never become a character are U+FFFD, as in a decode of the whole.
    """

    __slots__ = ("_decode", "_id_to_bytes")

    def __init__(self, id_to_bytes: Callable[[int], bytes]) -> None:
        self._id_to_bytes = id_to_bytes
        self._decode = _decoder(errors="replace").decode

    def push(self, token_ids: Iterable[int]) -> str:
        return self._decode(b"".join(map(self._id_to_bytes, token_ids)))

    def flush(self) -> str:
        """The tokens ended: U+FFFD for a character left unfinished, as in a decode of the whole. Streams omit it."""
        return self._decode(b"", True)
