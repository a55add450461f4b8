"""The table of what exists: path, method, handler, who may. What is not here is a 404 and never reaches an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.api import health, openai
from gateway.api.door import Door
from gateway.errors import MethodNotAllowed, UnknownUrl
from gateway.scope import Endpoint, RequestScope, Role

Handler = Callable[[Door, RequestScope], Awaitable[None]]


class Route(NamedTuple):
    method: str
    path: str  # may end in {name}: one or more segments, given to the handler as path_value
    handler: Handler
    endpoint: Endpoint | None = None  # what a credential may be limited to; None: open to every one
    role: Role = "user"  # the least that the asker must be


ROUTES = (
    Route("POST", "/v1/chat/completions", openai.chat_completions, "chat"),
    Route("POST", "/v1/completions", openai.completions, "completions"),
    Route("GET", "/v1/models", openai.models, "models"),
    Route("GET", "/v1/models/{model}", openai.model, "models"),
    Route("GET", "/healthz", health.healthz),
    Route("GET", "/readyz", health.readyz),
    Route("GET", "/metrics", health.metrics, "metrics", role="auditor"),
)

# Everything needs a key but these. They tell nothing of users, models or load.
PUBLIC_PATHS = {
    "/healthz": "a supervisor asks it before any key exists",
    "/readyz": "a load balancer asks it and has no key",
}

_EXACT = {(route.path, route.method): route for route in ROUTES if "{" not in route.path}
_OPEN = [(route.path.partition("{")[0], route) for route in ROUTES if "{" in route.path]
_PATHS = {path for path, _ in _EXACT}


def find(method: str, path: str) -> tuple[Route, str]:
    """The route and what stands in its open place. Raises UnknownUrl or MethodNotAllowed."""
    wanted = "GET" if method == "HEAD" else method
    if (route := _EXACT.get((path, wanted))) is not None:
        return route, ""
    if path not in _PATHS:
        for prefix, route in _OPEN:
            if route.method == wanted and path.startswith(prefix) and len(path) > len(prefix):
                return route, path.removeprefix(prefix)
    allowed = _methods(path)
    if allowed:
        raise MethodNotAllowed(f"Not allowed to {method[:20]} on {path[:200]}.", allowed)
    raise UnknownUrl(f"Unknown request URL: {method[:20]} {path[:200]}. See the list of routes in the documentation.")


def _methods(path: str) -> tuple[str, ...]:
    if path in _PATHS:
        return tuple(method for known, method in _EXACT if known == path)
    return tuple(route.method for prefix, route in _OPEN if path.startswith(prefix) and len(path) > len(prefix))
