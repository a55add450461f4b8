"""What the tests of the chat page share: a door with an engine that says what it is asked to, and hands at the page."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from backends.fake import FakeBackend, Script, chat_script
from tests.gateway.chromium import NewContext, enter
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor

MARKDOWN = """## Result

Text with **weight**, `code` and [a link](https://example.com/page).

```python
def double(x: int) -> int:
    return 2 * x
```

| Department | Hours |
| --- | ---: |
| 総務部 | 38 |

The error is $s/\\sqrt{n}$, and a ticket costs $5 or $6.

$$\\frac{a}{b}$$
"""
HOSTILE = """<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 2">

<iframe src="javascript:parent.hacked = 3"></iframe> <form action="https://evil.example"><input name=password></form>

[click](javascript:window.hacked=4) [data](data:text/html,<script>parent.hacked=5</script>)
![pixel](https://evil.example/pixel.png) <a href="https://evil.example" style="position:fixed;inset:0">x</a>

$\\href{javascript:hacked=6}{x}$ <style>body { display: none }</style> <base href="https://evil.example/">

```"><img src=x onerror=window.hacked=7>
<img src=x onerror=window.hacked=8>
```

The end of it."""

# Two slow processors carry three tests at once.
expect.set_options(timeout=30_000)

OpenChat = Callable[..., Awaitable[Page]]


def words(count: int) -> list[str]:
    return [f"word{number} " for number in range(count)]


def answer(body: bytes) -> Script:
    """By what the last question is."""
    asked = json.loads(body)["messages"][-1]["content"]
    if asked == "markdown":
        return chat_script([MARKDOWN[at : at + 7] for at in range(0, len(MARKDOWN), 7)])
    if asked == "hostile":
        return chat_script([HOSTILE[at : at + 5] for at in range(0, len(HOSTILE), 5)])
    if asked == "slow":
        return chat_script(words(120), gap=0.03)
    if asked == "endless":
        return chat_script(words(5000), gap=0.05)
    return chat_script([f"You said: {asked}"])


@pytest.fixture
async def chat_door(sign_in_door: SignInDoor) -> RunningDoor:
    return await sign_in_door(backend=FakeBackend(answer))


@pytest.fixture
def open_chat(chat_door: RunningDoor, new_context: NewContext) -> OpenChat:
    """Opens the page in a browser of its own; options are the browser's."""

    async def opened(door: RunningDoor = chat_door, path: str = "/chat", **options: Any) -> Page:
        page = await (await new_context(**{"locale": "en-GB"} | options)).new_page()
        await enter(door, page, path)
        await ready(page)
        return page

    return opened


async def ready(page: Page) -> None:
    """The scripts have come: the field is there before them."""
    await expect(page.locator(".composer button.primary")).to_be_visible()
    await expect(field(page)).to_be_focused()


def field(page: Page) -> Locator:
    return page.locator(".composer textarea")


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant")


def finished(page: Page) -> Locator:
    return page.locator(".message.assistant[aria-busy=false]")


async def ask(page: Page, text: str) -> None:
    await field(page).fill(text)
    await page.keyboard.press("Enter")


async def asked(page: Page, text: str) -> Locator:
    """The answer, once it is whole."""
    before = await answers(page).count()
    await ask(page, text)
    await expect(finished(page)).to_have_count(before + 1)
    return finished(page).last
