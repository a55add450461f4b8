"""What the chat page does at the edges: quotas, lost connections, files, long answers, small screens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from playwright.async_api import expect

from backends.fake import FakeBackend
from tests.gateway.chromium import faults_of_access, picture
from tests.gateway.conftest import RunningDoor
from tests.gateway.signing_in import SignInDoor, free_port
from tests.gateway.web.chatting import (
    OpenChat,
    answer,
    answers,
    ask,
    asked,
    chat_door,
    field,
    finished,
    open_chat,
    words,
)

__all__ = ["chat_door", "open_chat"]
pytestmark = pytest.mark.slow

# A font that is not in the file and a predefined character map, as many Japanese files have them: 日本語
PDF = b"""%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Resources<</Font<</F1 4 0 R>>>>/Contents 5 0 R>> endobj
4 0 obj <</Type/Font/Subtype/Type0/BaseFont/Ryumin-Light/Encoding/90ms-RKSJ-H/DescendantFonts[6 0 R]>> endobj
5 0 obj <</Length 43>> stream
BT /F1 20 Tf 20 100 Td <93fa967b8cea> Tj ET
endstream endobj
6 0 obj <</Type/Font/Subtype/CIDFontType0/BaseFont/Ryumin-Light/FontDescriptor 7 0 R
/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>>> endobj
7 0 obj <</Type/FontDescriptor/FontName/Ryumin-Light/Flags 6/FontBBox[0 0 1000 1000]/ItalicAngle 0/Ascent 800
/Descent -200/CapHeight 700/StemV 80>> endobj
trailer <</Root 1 0 R>>
%%EOF
"""
# Updates an answer as it grows to this length, and says how many nodes each update has put on the page.
GROWING = """async kind => {
  const module = document.querySelector("script[type=module]").src.replace("main.js", "live.js");
  const { LiveMarkdown } = await import(module);
  const place = document.querySelector(".messages").appendChild(document.createElement("div"));
  const [head, piece] = {
    blocks: ["", "## Part\\n\\nWords.\\n\\n- one\\n\\n```\\nx = 1\\n```\\n\\n| a |\\n| - |\\n| 1 |\\n\\n"],
    list: ["", "- one of **many** items\\n"],
    table: ["| a | b |\\n| - | - |\\n", "| one | two |\\n"],
    code: ["```python\\n", "value = compute(value)\\n"],
  }[kind];
  const live = new LiveMarkdown(place);
  const added = [];
  let count = 0, seen = false;
  new MutationObserver((all) => {
    seen = true;
    for (const one of all) for (const node of one.addedNodes) count += node.querySelectorAll?.("*").length ?? 1;
  }).observe(place, { childList: true, subtree: true, characterData: true });
  let text = head;
  while (text.length < 20_000) {
    text += piece.repeat(10);
    [count, seen] = [0, false];
    live.update(text);
    while (!seen) await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
    added.push(count);
  }
  live.finish(text);
  const long = place.classList.contains("long");
  return { early: Math.max(...added.slice(2, 8)), late: Math.max(...added.slice(-8)), text: place.textContent, long };
}"""


async def allow(door: RunningDoor, **limits: Any) -> None:
    """A policy for everyone, as an administrator sets it."""
    async with door.client.put("/admin/v1/policies/all", json=limits) as response:
        assert response.status < 300, await response.text()
    await asyncio.sleep(door.settings.key_cache_seconds)


@asynccontextmanager
async def line(port: int, target: int) -> AsyncIterator[Any]:
    """A line to the door that can be cut: every connection through it ends, in the middle of whatever it was."""
    open_now: set[asyncio.StreamWriter] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.add(writer)
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()
        open_now.discard(writer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, onward[1]), pump(onward[0], writer))

    def cut() -> None:
        for writer in list(open_now):
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield cut
    finally:
        server.close()
        cut()


async def test_a_connection_that_is_lost_costs_no_word(sign_in_door: SignInDoor, open_chat: OpenChat) -> None:
    outside, inside = free_port(), free_port()
    url = f"http://127.0.0.1:{outside}"
    door = await sign_in_door(backend=FakeBackend(answer), port=inside, public_url=url)
    door.url = url
    async with line(outside, inside) as cut:
        page = await open_chat(door)
        await ask(page, "slow")
        for seen in ("word2", "word20"):
            await expect(answers(page)).to_contain_text(seen)
            cut()
        await expect(finished(page)).to_contain_text("word119")
        said = await page.locator(".message.assistant .body").text_content() or ""
        assert said.split() == [word.strip() for word in words(120)]


async def test_a_quota_says_what_how_much_and_when_and_goes_on_when_it_is_raised(
    chat_door: RunningDoor, open_chat: OpenChat
) -> None:
    await allow(chat_door, requests_per_day=2)
    page = await open_chat()
    await asked(page, "one")
    await asked(page, "two")
    near = page.locator(".notice.near")
    await expect(near).to_contain_text("Your limit is reached · Requests per day · 2 of 2 · frees ")
    await ask(page, "three")
    told = page.locator(".message .notice.bad")
    await expect(told).to_contain_text("Your quota is used up.")
    await expect(told.locator("li").first).to_contain_text("Requests per day · 2 of 2 · frees ")
    await picture(page, "chat-quota-en")
    await allow(chat_door, requests_per_day=20)
    await page.get_by_role("button", name="Try again").click()
    await expect(finished(page).last).to_contain_text("You said: three")
    await expect(near).to_be_hidden()
    await near.evaluate("it => it.remove()")
    await page.locator("#header").get_by_role("link", name="Usage").click()
    await expect(page.locator(".limit-list li")).to_contain_text("Requests per day")
    await expect(page.locator(".plot .answered")).to_have_count(1)
    assert await faults_of_access(page) == []
    await picture(page, "usage-en")


async def test_files_go_into_the_prompt_and_what_is_too_long_is_told(
    chat_door: RunningDoor, open_chat: OpenChat
) -> None:
    page = await open_chat()
    attach = page.locator("input[type=file]")
    files = [("議事録.txt", "議事録の本文".encode("shift_jis")), ("日本.pdf", PDF), ("picture.png", b"\x89PNG\0\0")]
    await attach.set_input_files([{"name": name, "mimeType": "", "buffer": content} for name, content in files])
    await expect(page.locator(".composer .told")).to_have_text("picture.png is neither text nor a PDF.")
    await expect(page.locator(".chip")).to_have_text(["議事録.txtabout 6 tokens", "日本.pdfabout 3 tokens"])
    await asked(page, "sum up")
    sent = json.loads(chat_door.backend.asked[-1].body)["messages"][-1]["content"]
    read = {"議事録.txt": "議事録の本文", "日本.pdf": "日本語"}
    assert sent == "".join(f'<file name="{name}">\n{text}\n</file>\n\n' for name, text in read.items()) + "sum up"
    await expect(page.locator(".message.user .file")).to_have_count(2)
    await attach.set_input_files({"name": "long.txt", "mimeType": "text/plain", "buffer": b"word " * 4000})
    await expect(page.locator(".composer .told")).to_contain_text("Too long for this model: about 5,")
    await expect(page.locator(".composer").get_by_role("button", name="Send")).to_be_disabled()
    await page.get_by_role("button", name="Remove long.txt").click()
    await field(page).fill("x")
    await expect(page.locator(".composer").get_by_role("button", name="Send")).to_be_enabled()


async def test_a_long_answer_costs_no_more_a_token_than_a_short_one(open_chat: OpenChat) -> None:
    page = await open_chat()
    await asked(page, "first")
    for kind in ("blocks", "list", "table", "code"):
        grown = await page.evaluate(GROWING, kind)
        assert 0 <= grown["late"] <= grown["early"] + 2, kind
        assert grown["long"] == (kind == "blocks"), "only what has many blocks is laid out in part"
        assert "undefined" not in grown["text"]


@pytest.mark.parametrize(("language", "theme", "width"), [("en-GB", "light", 1920), ("ja-JP", "dark", 320)])
async def test_it_fits_every_screen_and_whoever_cannot_see_it(
    open_chat: OpenChat, language: str, theme: str, width: int
) -> None:
    viewport = {"width": width, "height": 800}
    page = await open_chat(locale=language, color_scheme=theme, viewport=viewport)
    assert await faults_of_access(page) == []
    await picture(page, f"chat-empty-{theme}-{width}")
    await asked(page, "markdown")
    assert await page.evaluate("() => document.documentElement.scrollWidth") == width
    assert await faults_of_access(page) == []
    await picture(page, f"chat-{theme}-{width}")
    await page.keyboard.press("Control+/")
    assert await faults_of_access(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="会話一覧" if width == 320 else "Conversations").click()
    await page.locator(".models summary").press("Enter") if width > 320 else None
    assert await faults_of_access(page) == []
    await picture(page, f"chat-list-{theme}-{width}")
