"""The console's page: one frame for all of /console. What it shows and does it asks the admin API for."""

from __future__ import annotations

from gateway.api.door import Door
from gateway.api.language import language
from gateway.api.pages import page, send_app
from gateway.scope import RequestScope
from gateway.web.app_page import app_page
from gateway.web.words import said


@page
async def show(door: Door, request: RequestScope) -> None:
    """Whoever has no right to it is told so by the page: what is worth keeping is behind the API."""
    title = said("console", language(request))
    text = app_page(language(request), title, "console/main.js", styles=["console/console.css"])
    await send_app(door, request, text)
