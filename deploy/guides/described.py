"""What routes that are no `Operation` read and answer: words, and the types that the handlers decode with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from backends.wire.embeddings import EmbeddingsRequest
from backends.wire.rerank import RerankRequest
from backends.wire.schema import ChatRequest, CompletionRequest
from gateway.api import batches, plan
from gateway.api.chat import answers, conversations, templates
from gateway.chat.records import Conversation
from gateway.responses.schema import ResponsesRequest


class Described(NamedTuple):
    says: str
    answers: str
    body: Any = None
    query: Any = None
    shown: Any = None  # the type of the answer, where it has one


_TEXT = "the official object, or with `stream: true` its events, then `[DONE]`"
_EVENTS = "events: `started`, `queue`, `delta`, `notice`, `done`, `error`, each with a number as its `id`"
_PAGE = "a page"
_LIST = "`{data: [...], has_more}`, newest first; `after`, `limit` and `order` as the official API"

ROUTES: Mapping[tuple[str, str], Described] = {
    ("POST", "/v1/chat/completions"): Described("An answer to a conversation", _TEXT, ChatRequest),
    ("POST", "/v1/completions"): Described("A text goes on", _TEXT, CompletionRequest),
    ("POST", "/v1/embeddings"): Described(
        "Vectors of texts", "the official list of embeddings, with `usage`", EmbeddingsRequest
    ),
    ("POST", "/v1/rerank"): Described(
        "Documents in order of how well they fit a query",
        "`{results: [{index, relevance_score, document?}], usage}`, best first",
        RerankRequest,
    ),
    ("POST", "/v1/responses"): Described(
        "An answer in the form of the Responses API; nothing of it is stored",
        "the official response, or with `stream: true` its events",
        ResponsesRequest,
    ),
    ("GET", "/v1/responses/{id}"): Described("Responses are not stored", "404"),
    ("DELETE", "/v1/responses/{id}"): Described("Responses are not stored", "404"),
    ("GET", "/v1/models"): Described("The models that the caller may use", "the official list, with `max_model_len`"),
    ("GET", "/v1/models/{model}"): Described("One of them", "the official object; 404 where the caller may not"),
    ("GET", "/v1/prefixes"): Described(
        "How often beginnings that were named by `X-Prefix-Id` were found in a cache",
        "`{data: [{id, last_used, requests, prompt_tokens, cached_tokens, hit_rate}]}`",
    ),
    ("POST", "/v1/files"): Described(
        "A file for a batch: a form with `file`, `purpose: batch` and, if you like, `expires_after`",
        "the official file",
    ),
    ("GET", "/v1/files"): Described("The caller's files; `purpose` filters", _LIST),
    ("GET", "/v1/files/{id}"): Described("One of them", "the official file"),
    ("DELETE", "/v1/files/{id}"): Described("Deletes it", "`{id, object, deleted}`"),
    ("GET", "/v1/files/{id}/content"): Described("What is in it", "its bytes"),
    ("POST", "/v1/batches"): Described(
        "Begins a batch; `completion_window` is `1h` to `7d`", "the official batch", batches._New
    ),
    ("GET", "/v1/batches"): Described("The caller's batches", _LIST),
    ("GET", "/v1/batches/{id}"): Described("One of them", "the official batch"),
    ("POST", "/v1/batches/{id}/cancel"): Described("Ends it; what is done is kept", "the official batch"),
    ("GET", "/chat/v1/settings"): Described(
        "What there is to choose from, and what the chat keeps",
        "`{storage, retention_days, max_message_bytes, models: [{id, description, context, vision}], unread_minutes}`",
    ),
    ("GET", "/chat/v1/usage"): Described(
        "What the caller used this month, and what is left of each limit", "`{days: [...], limits: [...]}`"
    ),
    ("GET", "/chat/v1/templates"): Described("Prompts that the tenant shares", "`{data: [template]}`"),
    ("GET", "/chat/v1/templates/{name}"): Described(
        "One of them", "`{name, text, description, by, created, updated, may_change}`"
    ),
    ("PUT", "/chat/v1/templates/{name}"): Described(
        "Puts it, in place of what its owner or an admin had there", "the template", templates._Put
    ),
    ("DELETE", "/chat/v1/templates/{name}"): Described(
        "Deletes it; its owner or an admin", "`{name, object, deleted}`"
    ),
    ("GET", "/chat/v1/conversations"): Described(
        "The caller's conversations, newest first; `search` looks into their words",
        "`{data: [{id, title, model, created, updated}], has_more, next}`; `next` is the `after` of the next page",
        query=conversations._Listing,
    ),
    ("POST", "/chat/v1/conversations"): Described(
        "Begins one", "201 with the conversation", conversations._New, shown=Conversation
    ),
    ("DELETE", "/chat/v1/conversations"): Described("Deletes all that are the caller's", "`{object, deleted}`"),
    ("GET", "/chat/v1/conversations/{id}"): Described(
        "One of them, its messages as a tree by `parent`", "the conversation", shown=Conversation
    ),
    ("PATCH", "/chat/v1/conversations/{id}"): Described(
        "Changes what is named", "the conversation", conversations._Change, shown=Conversation
    ),
    ("DELETE", "/chat/v1/conversations/{id}"): Described("Deletes it", "`{id, object, deleted}`"),
    ("GET", "/chat/v1/conversations/{id}/export"): Described(
        "To take along", "a file, JSON or Markdown", query=conversations._Export
    ),
    ("POST", "/chat/v1/conversations/{id}/answers"): Described(
        "Asks: `content` below `parent`; without it `parent` is answered again; `continue` goes on with a cut answer",
        _EVENTS,
        answers._Ask,
    ),
    ("POST", "/chat/v1/answers"): Described(
        "Asks, for a conversation that the browser keeps", _EVENTS, answers._AskWhole
    ),
    ("GET", "/chat/v1/answers/{id}/events"): Described(
        "What was missed of an answer, then live: from `from` on, or from behind `Last-Event-ID`",
        _EVENTS,
        query=answers._Events,
    ),
    ("POST", "/chat/v1/answers/{id}/stop"): Described("Ends an answer; what was said stays", "`{id, object, stopped}`"),
    ("GET", "/plan/v1/measured"): Described(
        "How quick engines were lately, of models that the caller may use", "`{data: [...]}`", shown=plan.Measured
    ),
    ("GET", "/healthz"): Described("Whether this process lives", '`{"status": "ok"}`'),
    ("GET", "/readyz"): Described(
        "Whether a request would be taken now", "200 or 503 with `{status, missing, draining}`"
    ),
    ("GET", "/metrics"): Described(
        "Metrics, as [telemetry](../../gateway/telemetry/README.md) lists them", "Prometheus' text"
    ),
    ("GET", "/"): Described("Ways to sign in; who is signed in, as what and why", _PAGE),
    ("GET", "/account"): Described("Where the caller is signed in", _PAGE),
    ("GET", "/chat"): Described("The chat", _PAGE),
    ("GET", "/usage"): Described("What the caller used, and what is left", _PAGE),
    ("GET", "/console"): Described("For admins and auditors", _PAGE),
    ("GET", "/console/{page}"): Described("The same", _PAGE),
    ("GET", "/plan"): Described("The planner", _PAGE),
    ("GET", "/auth/sign-in"): Described("Begins a sign-in at a provider", "leads there"),
    ("GET", "/auth/callback"): Described("Where the provider sends the browser back to", "leads to where it was going"),
    ("GET", "/auth/local"): Described("A one-time link of `sekisho sign-in`", "leads to `/`"),
    ("GET", "/auth/session"): Described("Who the caller is, as what, and why", "`{user, role, tenant, groups, ...}`"),
    ("POST", "/auth/sign-out"): Described("Ends the session, here and at the provider", "leads there"),
    ("POST", "/auth/backchannel-logout"): Described("A provider tells that a session ended", "200"),
    ("GET", "/web/style.css"): Described("How the pages of sign-in look", "a sheet"),
    ("GET", "/web/{file}"): Described("Scripts and sheets of the pages, under the version of their content", "a file"),
}
