"""Work that stops when nobody is left to answer. One watcher races a whole request, so that no await is without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gateway.errors import ClientGone
from gateway.scope import Receive, Send

T = TypeVar("T")


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T], answered: Callable[[], bool]) -> T:
    """The work's result. Raises ClientGone if the client leaves first; the work has then been cancelled and has ended.

    A client may well leave once it is `answered`; what the work still has to do is then left to end by itself.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if task.done() or answered():
            return await task
        raise ClientGone
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    """The body was read before, so what comes next is the end of the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def cut_off(send: Send) -> None:
    """End the connection of a client that does not read: a close would wait until it has read everything.

    ASGI has no word for it, so this takes the transport from uvicorn's `send`; of another server it asks nothing.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0)  # the server hears of it before the application returns
