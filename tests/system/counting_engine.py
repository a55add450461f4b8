"""A small engine in the words of the native one, which counts what it says: `python -m tests.system.counting_engine`.

A question ends with how many tokens its answer has and how many seconds lie between two events.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aiohttp import web

from backends.fake import DONE, chat_chunk, event

MODEL = "counting"


class Engine:
    def __init__(self) -> None:
        self._accounts: dict[str, dict[str, Any]] = {}

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.get("/internal/requests/{id}", self._account),
                web.get("/totals", self._totals),
                web.post("/v1/chat/completions", self._chat),
            ]
        )
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": MODEL, "max_model_len": 4096}]})

    async def _account(self, request: web.Request) -> web.Response:
        account = self._accounts.get(request.match_info["id"])
        return web.json_response(account or {"error": "unknown"}, status=200 if account else 404)

    async def _totals(self, _: web.Request) -> web.Response:
        parts = ("prompt_tokens", "completion_tokens", "cached_tokens")
        sums = {part: sum(account[part] for account in self._accounts.values()) for part in parts}
        running = sum(account["state"] == "running" for account in self._accounts.values())
        return web.json_response(sums | {"running": running, "requests": len(self._accounts)})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        content = (await request.json())["messages"][-1]["content"]
        *prompt, tokens, gap = content.split()
        account = {
            "state": "running",
            "prompt_tokens": len(prompt),
            "completion_tokens": 0,
            "cached_tokens": len(prompt) // 3,
        }
        self._accounts[request.headers["x-request-id"]] = account
        try:
            answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await answer.prepare(request)
            await _say(answer, account, int(tokens), float(gap))
        except (ConnectionError, asyncio.CancelledError):
            account["state"] = "aborted"
            raise
        account["state"] = "finished"
        return answer


async def _say(answer: web.StreamResponse, account: dict[str, Any], tokens: int, gap: float) -> None:
    """One event holds one token or two: whoever counts events counts too few."""
    while account["completion_tokens"] < tokens:
        said = min(tokens - account["completion_tokens"], 1 + account["completion_tokens"] % 2)
        account["completion_tokens"] += said
        await answer.write(event(chat_chunk({"content": "word " * said})))
        await asyncio.sleep(gap)
    details = {"cached_tokens": account["cached_tokens"]}
    usage = {name: account[name] for name in ("prompt_tokens", "completion_tokens")} | {
        "prompt_tokens_details": details
    }
    for last in (chat_chunk({}, "stop"), chat_chunk({}) | {"choices": [], "usage": usage}):
        await answer.write(event(last))
    await answer.write(DONE)


if __name__ == "__main__":
    web.run_app(Engine().app(), path=sys.argv[1], print=lambda *_: None, handler_cancellation=True, access_log=None)
