"""The files that pages load, read once: scripts, styles, vendored libraries. Knows no request and no page."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from posixpath import dirname, normpath
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
# By name and not by the machine's own tables: a browser runs no module of the wrong type.
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".png": "image/png",
    ".wasm": "application/wasm",
}
_PACKED = ("text/", "image/svg", "application/json", "application/wasm")


@dataclass(frozen=True)
class Asset:
    body: bytes
    content_type: str

    @cached_property
    def packed(self) -> bytes | None:
        """By gzip, where that makes it smaller. Made when it is first asked for: some are large."""
        packed = gzip.compress(self.body, mtime=0) if self.content_type.startswith(_PACKED) else self.body
        return packed if len(packed) < len(self.body) else None


# A module's imports that are loaded with it; those that wait for their need are calls: import("./x.js").
_IMPORT = re.compile(r'^(?:import|export)\b(?:[^"();]*?\bfrom)?\s*"(\.[^"]+)"', re.MULTILINE)


class Assets(NamedTuple):
    """`version` changes with any byte of any file, so that what is served under it never does."""

    version: str
    files: dict[str, Asset]  # by path within the folder

    def url(self, path: str) -> str:
        """Raises KeyError for a file that is not there."""
        if path not in self.files:
            raise KeyError(f"no file {path} under {FOLDER.name}")
        return f"/web/{self.version}/{path}"

    def imports(self, module: str) -> list[str]:
        """The paths of all modules that this one loads, by way of others too, the nearest first."""
        found = [module]
        for path in found:  # which grows meanwhile
            for named in _IMPORT.findall(self.files[path].body.decode()):
                other = normpath(f"{dirname(path)}/{named}")
                if other not in found:
                    found.append(other)
        return found[1:]


def read_assets(folder: Path) -> Assets:
    digest = hashlib.sha256()
    files: dict[str, Asset] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, body = path.relative_to(folder).as_posix(), path.read_bytes()
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
        files[name] = _asset(path, body)
    return Assets(digest.hexdigest()[:16], files)


@cache
def assets() -> Assets:
    """Those of this package."""
    return read_assets(FOLDER)


def _asset(path: Path, body: bytes) -> Asset:
    kind = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain; charset=utf-8"
    return Asset(body, kind)
