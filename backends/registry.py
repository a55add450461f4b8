"""Kind of engine > the function that makes its adapter. Imported lazily, so one adapter's needs are not everyone's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from backends.base import Backend, Options

_CREATORS: dict[str, str] = {
    "native": "backends.native:create",
    "openai": "backends.openai:create",
    "ollama": "backends.ollama.backend:create",
    "sglang": "backends.sglang:create",
    "vllm": "backends.vllm:create",
    "llamacpp": "backends.llamacpp:create",
    "fake": "backends.fake:create",
}

KINDS = tuple(_CREATORS)


def create(
    kind: str, url: str, api_key: str | None = None, *, name: str | None = None, options: Options | None = None
) -> Backend:
    """The adapter for `kind`, which must be one of KINDS, talking to `url` (http://, https:// or unix:/path)."""
    module, _, function = _CREATORS[kind].partition(":")
    creator: Callable[[str, str, str | None, Options], Backend] = getattr(import_module(module), function)
    return creator(name or kind, url, api_key, options or Options())
