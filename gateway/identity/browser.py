"""What a browser's request tells by itself: its cookies, the page it came from, whether it navigates. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from gateway.errors import Forbidden
from gateway.scope import RequestScope
from gateway.settings import LOOPBACK_HOSTS

SESSION = "sekisho"
SIGN_IN = "sekisho-sign-in"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LONGEST_VALUE = 256
_LONGEST_RETURN = 2048

Header = tuple[bytes, bytes]


class Site:
    """Where browsers reach the gateway. Without a public URL it is this machine, over plain HTTP."""

    def __init__(self, public_url: str | None) -> None:
        self.public_url = public_url
        self._public_origin = _origin_of(public_url) if public_url else None
        self._secure = public_url is not None and public_url.startswith("https:")
        # A browser takes __Host- only with Secure, for this host alone: no neighbour under the same domain can set it.
        self._prefix = "__Host-" if self._secure else ""

    def cookie(self, request: RequestScope, name: str) -> str | None:
        """None where it is not there; what comes twice is not taken, for one of the two is somebody else's."""
        if b"cookie" in request.repeated:
            return None
        wanted = f"{self._prefix}{name}"
        parts = (part.partition("=") for part in request.headers.get(b"cookie", b"").decode("latin-1").split(";"))
        found = [value.strip()[:_LONGEST_VALUE] for key, _, value in parts if key.strip() == wanted]
        return found[0] if len(found) == 1 else None

    def set_cookie(self, name: str, value: str, seconds: float) -> Header:
        secure = "; Secure" if self._secure else ""
        text = f"{self._prefix}{name}={value}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", text.encode("ascii")

    def clear_cookie(self, name: str) -> Header:
        return self.set_cookie(name, "", 0)

    def check_origin(self, request: RequestScope) -> None:
        """Raises Forbidden for an act that another site's page has begun (CSRF). Reading is no act."""
        if request.method in _SAFE_METHODS:
            return
        origin = request.headers.get(b"origin")
        if origin is None:
            own = request.headers.get(b"sec-fetch-site") == b"same-origin"
        else:
            own = origin.decode("latin-1") == self._origin(request)
        if not own:
            raise Forbidden(
                "A page of another site may not act in your name. Come from a page of this gateway; "
                "programs send an API key instead of a cookie.",
                code="foreign_origin",
            )

    def _origin(self, request: RequestScope) -> str | None:
        if self._public_origin is not None:
            return self._public_origin
        host = request.headers.get(b"host", b"").decode("latin-1")
        return f"http://{host}" if _hostname(host) in LOOPBACK_HOSTS else None


def is_navigation(request: RequestScope) -> bool:
    """Whether a person sees the answer as a page. What runs in the background gets JSON, never a page to sign in."""
    return request.method in ("GET", "HEAD") and wants_page(request)


def wants_page(request: RequestScope) -> bool:
    """A form that is sent shows its answer too."""
    mode = request.headers.get(b"sec-fetch-mode")
    return mode == b"navigate" if mode is not None else b"text/html" in request.headers.get(b"accept", b"")


def safe_return(address: str) -> str:
    """The address if it is a path of ours that may follow a sign-in; otherwise the landing page."""
    local = address.startswith("/") and not address.startswith(("//", "/auth/"))
    plain = address.isascii() and address.isprintable() and not set(address) & set('\\ "<>')
    return address if local and plain and len(address) <= _LONGEST_RETURN else "/"


def _origin_of(url: str) -> str:
    """As browsers spell it: in lower case, without the port that goes without saying."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port not in (None, usual) else "")


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
