"""The table of what exists: path, method, handler, who may. What is not here is a 404 and never reaches an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.api import admin, health, openai
from gateway.api.door import Door
from gateway.errors import MethodNotAllowed, UnknownUrl
from gateway.scope import Endpoint, RequestScope, Role

Handler = Callable[[Door, RequestScope], Awaitable[None]]


class Route(NamedTuple):
    method: str
    path: str  # may hold one {name}: one or more segments, given to the handler as path_value
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
    *(Route(one.method, one.path, one, one.endpoint, one.role) for one in (*admin.OPERATIONS, admin.DOCUMENT)),
)

# Everything needs a key but these. They tell nothing of users, models or load.
PUBLIC_PATHS = {
    "/healthz": "a supervisor asks it before any key exists",
    "/readyz": "a load balancer asks it and has no key",
}


class _Open(NamedTuple):
    prefix: str
    suffix: str
    routes: dict[str, Route]  # by method


def _by_path() -> tuple[dict[str, dict[str, Route]], list[_Open]]:
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    exact = {path: routes for path, routes in by_path.items() if "{" not in path}
    opened = [
        _Open(path.partition("{")[0], path.partition("}")[2], routes)
        for path, routes in by_path.items()
        if path not in exact
    ]
    # Those that say what stands behind the open place come first: /keys/{id}/rotate is no key called `.../rotate`.
    return exact, sorted(opened, key=lambda it: (-len(it.prefix), -len(it.suffix)))


_EXACT, _OPEN = _by_path()


def find(method: str, path: str) -> tuple[Route, str]:
    """The route and what stands in its open place. Raises UnknownUrl or MethodNotAllowed."""
    routes, value = _at(path)
    route = routes.get("GET" if method == "HEAD" else method)
    if route is not None:
        return route, value
    if routes:
        raise MethodNotAllowed(f"Not allowed to {method[:20]} on {path[:200]}.", tuple(routes))
    raise UnknownUrl(f"Unknown request URL: {method[:20]} {path[:200]}. See the list of routes in the documentation.")


def _at(path: str) -> tuple[dict[str, Route], str]:
    if (routes := _EXACT.get(path)) is not None:
        return routes, ""
    for prefix, suffix, routes in _OPEN:
        if path.startswith(prefix) and path.endswith(suffix) and len(path) > len(prefix) + len(suffix):
            return routes, path[len(prefix) : len(path) - len(suffix)]
    return {}, ""
