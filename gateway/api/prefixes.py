"""/v1/prefixes: how often prompts whose beginning the client named (X-Prefix-Id) were found in an engine's cache."""

from __future__ import annotations

from gateway.api.door import Door
from gateway.api.http import send_json
from gateway.routing.prefix_use import PrefixUse, prefix_report
from gateway.scope import RequestScope


async def prefixes(door: Door, request: RequestScope) -> None:
    """Of the caller's tenant, whose prompts alone share their beginnings."""
    found = await prefix_report(door.store, request.known().tenant)
    await send_json(request, {"object": "list", "data": [_shown(one) for one in found]})


def _shown(use: PrefixUse) -> dict[str, object]:
    rate = use.cached_tokens / use.prompt_tokens if use.prompt_tokens else 0.0
    return {
        "id": use.prefix_id,
        "object": "prefix",
        "last_used": use.last_used,
        "requests": use.requests,
        "prompt_tokens": use.prompt_tokens,
        "cached_tokens": use.cached_tokens,
        "hit_rate": round(rate, 4),
    }
