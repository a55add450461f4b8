"""Where traces go: checks the address, and opens OpenTelemetry, which is imported for nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from backends.telemetry.tracing import Tracing

TRACES_PATH = "/v1/traces"


class NotInstalled(Exception):
    """Traces are asked for, but OpenTelemetry is not there; says how to get it."""


def check_endpoint(value: str | None) -> str | None:
    """The base of a collector's OTLP over HTTP, without an end slash. Raises ValueError with what was expected."""
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:  # a port that is no number
        usable = False
    if not usable or parts.query or parts.fragment or "@" in parts.netloc or value.rstrip("/").endswith(TRACES_PATH):
        raise ValueError(
            f"expected http://host:port or https://host of a collector, to which {TRACES_PATH} is added; what it is "
            "to be given as credentials belongs in OTEL_EXPORTER_OTLP_HEADERS"
        )
    return value.rstrip("/")


def open_tracing(service: str, endpoint: str, ratio: float = 1.0) -> Tracing:
    """Exports from now on; whoever opens it closes it. `ratio`: of traces that begin here. Raises NotInstalled."""
    require(endpoint)
    from backends.telemetry.tracing import Tracing

    return Tracing(service, endpoint, ratio)


def require(endpoint: str | None) -> None:
    """Raises NotInstalled where traces are to go somewhere, and cannot."""
    if endpoint is None:
        return
    try:
        import backends.telemetry.tracing  # noqa: F401  whether it can be imported is the question
    except ImportError as missing:
        raise NotInstalled(
            f"traces are to go to {endpoint}, but {missing.name or 'OpenTelemetry'} is not installed: "
            "pip install 'sekisho[tracing]', or leave the OTLP endpoint out"
        ) from missing
