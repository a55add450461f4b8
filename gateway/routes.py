"""The table of what exists: path, method, handler, who may. What is not here is a 404 and never reaches an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from gateway.api import (
    admin,
    assets,
    batches,
    console,
    embeddings,
    files,
    health,
    openai,
    plan,
    prefixes,
    responses,
    sign_in,
)
from gateway.api.chat import about, answers, conversations, page, templates, usage
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
    Route("POST", "/v1/embeddings", embeddings.embeddings, "embeddings"),
    Route("POST", "/v1/rerank", embeddings.rerank, "rerank"),
    Route("POST", "/v1/responses", responses.create, "responses"),
    Route("GET", "/v1/responses/{id}", responses.stored, "responses"),
    Route("DELETE", "/v1/responses/{id}", responses.stored, "responses"),
    Route("GET", "/v1/models", openai.models, "models"),
    Route("GET", "/v1/models/{model}", openai.model, "models"),
    Route("GET", "/v1/prefixes", prefixes.prefixes, "models"),
    Route("POST", "/v1/files", files.create, "files"),
    Route("GET", "/v1/files", files.list_, "files"),
    Route("GET", "/v1/files/{id}", files.show, "files"),
    Route("DELETE", "/v1/files/{id}", files.delete, "files"),
    Route("GET", "/v1/files/{id}/content", files.content, "files"),
    Route("POST", "/v1/batches", batches.create, "batches"),
    Route("GET", "/v1/batches", batches.list_, "batches"),
    Route("GET", "/v1/batches/{id}", batches.show, "batches"),
    Route("POST", "/v1/batches/{id}/cancel", batches.cancel, "batches"),
    Route("GET", "/chat/v1/settings", about.settings, "chat"),
    Route("GET", "/chat/v1/usage", usage.usage, "chat"),
    Route("GET", "/chat/v1/templates", templates.list_, "chat"),
    Route("GET", "/chat/v1/templates/{name}", templates.show, "chat"),
    Route("PUT", "/chat/v1/templates/{name}", templates.put, "chat"),
    Route("DELETE", "/chat/v1/templates/{name}", templates.delete, "chat"),
    Route("GET", "/chat/v1/conversations", conversations.list_, "chat"),
    Route("POST", "/chat/v1/conversations", conversations.create, "chat"),
    Route("DELETE", "/chat/v1/conversations", conversations.delete_all, "chat"),
    Route("GET", "/chat/v1/conversations/{id}", conversations.show, "chat"),
    Route("PATCH", "/chat/v1/conversations/{id}", conversations.change, "chat"),
    Route("DELETE", "/chat/v1/conversations/{id}", conversations.delete, "chat"),
    Route("GET", "/chat/v1/conversations/{id}/export", conversations.export, "chat"),
    Route("POST", "/chat/v1/conversations/{id}/answers", answers.create, "chat"),
    Route("POST", "/chat/v1/answers", answers.create_whole, "chat"),
    Route("GET", "/chat/v1/answers/{id}/events", answers.events, "chat"),
    Route("POST", "/chat/v1/answers/{id}/stop", answers.stop, "chat"),
    Route("GET", "/healthz", health.healthz),
    Route("GET", "/readyz", health.readyz),
    Route("GET", "/metrics", health.metrics, "metrics", role="auditor"),
    Route("GET", "/", sign_in.landing),
    Route("GET", "/account", sign_in.account),
    Route("GET", "/chat", page.chat),
    Route("GET", "/usage", page.usage),
    Route("GET", "/console", console.show),
    Route("GET", "/console/{page}", console.show),
    Route("GET", "/plan", plan.show),
    Route("GET", "/plan/v1/measured", plan.measured),
    Route("GET", "/auth/sign-in", sign_in.begin),
    Route("GET", "/auth/callback", sign_in.callback),
    Route("GET", "/auth/local", sign_in.local),
    Route("GET", "/auth/session", sign_in.session),
    Route("POST", "/auth/sign-out", sign_in.sign_out),
    Route("POST", "/auth/backchannel-logout", sign_in.back_channel_logout),
    Route("GET", "/web/style.css", sign_in.style),
    Route("GET", "/web/{file}", assets.asset),
    *(
        Route(one.method, one.path, one, one.endpoint, one.role)
        for one in (*admin.OPERATIONS, admin.DOCUMENT, *plan.OPERATIONS)
    ),
)

# Everything needs a key or a session but these. They tell nothing of users, models or load.
PUBLIC_PATHS = {
    "/healthz": "a supervisor asks it before any key exists",
    "/readyz": "a load balancer asks it and has no key",
    "/": "it offers the ways to sign in; what it tells of a person it reads from that person's own session",
    "/auth/sign-in": "whoever signs in has no session yet",
    "/auth/callback": "the provider sends the browser back here; state, nonce and a cookie say whose sign-in it is",
    "/auth/local": "the one-time token in the link is the credential",
    "/auth/sign-out": "ends the session of the cookie, if there is one, and looks at the page's origin itself",
    "/auth/backchannel-logout": "the provider's signed logout token is the credential",
    "/web/style.css": "how pages look is no secret, and the first page needs it",
    "/web/{file}": "scripts and styles are the same for everyone and hold nothing of anyone",
}
# Asked every few seconds, by machines: not worth a line in the log each.
PROBES = frozenset({"/healthz", "/readyz"})
# Pages that need a session: a person who opens one without it is asked to sign in, and comes back.
PAGES = frozenset({"/account", "/chat", "/usage", "/console", "/console/{page}", "/plan"})


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
