"""The file of a backup: a gzipped tar of members with their SHA-256 in the last one. Knows nothing of what they hold.

Members are `backup.json` (what it is), `server.key`, `redis/<number>` (MessagePack) and `files/<id>`, and at last
`sha256sums`, as `sha256sum -c` reads it. So `tar xzf` and common tools can look into it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from gateway.cli.console import CliError

_SUMS = "sha256sums"
_NAME = re.compile(r"backup\.json|server\.key|redis/\d{8}|files/file-[0-9a-f]{36}", re.ASCII)
_LEVEL = 3  # Redis is read as quickly
LARGEST_PART = 256 * 1024 * 1024  # of what is taken into memory


class Member(NamedTuple):
    name: str
    size: int
    content: IO[bytes]


class Writer:
    """Into a stream, member by member; `finish` makes it whole."""

    def __init__(self, target: IO[bytes]) -> None:
        # `finish` closes them: what was not finished is no backup.
        self._gzip = gzip.GzipFile(fileobj=target, mode="wb", compresslevel=_LEVEL)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._sums: list[str] = []

    def add(self, name: str, data: bytes) -> None:
        self.add_stream(name, io.BytesIO(data), len(data))

    def add_stream(self, name: str, source: IO[bytes], size: int) -> None:
        """`size` bytes of the source, which may have grown since. Raises OSError where there are less."""
        summed = _Summed(source)
        self._tar.addfile(_info(name, size), summed)
        self._sums.append(f"{summed.digest}  {name}\n")

    def finish(self) -> None:
        sums = "".join(self._sums).encode()
        self._tar.addfile(_info(_SUMS, len(sums)), io.BytesIO(sums))
        self._tar.close()
        self._gzip.close()


class _Summed(io.RawIOBase):
    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._sum.update(data)
        return data

    @property
    def digest(self) -> str:
        return self._sum.hexdigest()


def members(source: IO[bytes]) -> Iterator[Member]:
    """One after another; the content of each is there until the next. Raises CliError."""
    with _is_archive(), tarfile.open(fileobj=source, mode="r|gz") as tar:
        for info in tar:
            content = tar.extractfile(info) if info.isreg() else None
            if content is None or not (_NAME.fullmatch(info.name) or info.name == _SUMS):
                raise CliError(f"this is no backup of Sekisho: {info.name[:100]!r} is in it.")
            yield Member(info.name, info.size, content)


def verify(source: IO[bytes]) -> None:
    """Read all of it, and compare the sums. Raises CliError where a byte is not as it was written."""
    found: dict[str, str] = {}
    listed = None
    with _is_archive():
        for member in members(source):
            if member.name == _SUMS:
                listed = read_all(member)
            elif listed is not None or member.name in found:
                raise CliError(f"this is no backup of Sekisho: {member.name} stands twice or too late in it.")
            else:
                found[member.name] = hashlib.file_digest(member.content, "sha256").hexdigest()  # type: ignore[arg-type]
    if listed != "".join(f"{digest}  {name}\n" for name, digest in found.items()).encode():
        raise CliError("this backup is damaged, or was cut off: its checksums do not fit. Nothing was changed.")


@contextmanager
def _is_archive() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise CliError(f"this is no whole backup of Sekisho ({error}). Nothing was changed.") from error


def read_all(member: Member) -> bytes:
    if member.size > LARGEST_PART:
        raise CliError(f"this is no backup of Sekisho: {member.name} is too large.")
    return member.content.read()


def _info(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info
