"""GET /web/<version>/<path>: the files that pages load."""

from __future__ import annotations

from gateway.api.door import Door
from gateway.api.http import send_bytes
from gateway.errors import UnknownUrl
from gateway.scope import RequestScope
from gateway.web.assets import assets

_FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")


async def asset(door: Door, request: RequestScope) -> None:
    version, _, path = request.path_value.partition("/")
    served = assets()
    found = served.files.get(path) if version == served.version else None
    if found is None:
        raise UnknownUrl("No such file in this version of the gateway. Load the page again.")
    body, headers = found.body, [_FOR_EVER]
    if found.packed is not None:
        headers.append((b"vary", b"accept-encoding"))
        if _takes_gzip(request.headers.get(b"accept-encoding", b"")):
            body, headers = found.packed, [*headers, (b"content-encoding", b"gzip")]
    await send_bytes(request, body, found.content_type, headers=headers)


def _takes_gzip(accepted: bytes) -> bool:
    """Named and not refused (`gzip;q=0`); every browser names it."""
    for part in accepted.decode("latin-1").lower().split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False
