"""/chat and /usage: the pages of whoever asks questions here."""

from __future__ import annotations

from gateway.api.door import Door
from gateway.api.language import language
from gateway.api.pages import page, send_app
from gateway.scope import RequestScope
from gateway.web.app_page import app_page
from gateway.web.chat_frame import chat_frame
from gateway.web.words import said

_CHAT_STYLES = ("chat/message.css", "chat/composer.css", "chat/chat.css")


@page
async def chat(door: Door, request: RequestScope) -> None:
    spoken = language(request)
    body = chat_frame(spoken, new=not request.query)
    text = app_page(spoken, said("chat", spoken), "chat/main.js", body, _CHAT_STYLES, kind="chats")
    await send_app(door, request, text)


@page
async def usage(door: Door, request: RequestScope) -> None:
    spoken = language(request)
    text = app_page(spoken, said("usage", spoken), "usage/main.js", styles=["usage/usage.css"])
    await send_app(door, request, text)
