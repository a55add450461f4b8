#!/usr/bin/env python3
"""How soon the chat page is there, what it loads, and whether an answer of 10,000 tokens makes it stutter.

    .venv/bin/python deploy/bench/pages.py

Through the real door, in Debian's Chromium. The engine is a scripted one that is quicker than anybody reads.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import uvicorn
import uvloop
from playwright.async_api import Browser, BrowserContext, Page, async_playwright
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from identify import valkey  # noqa: E402
from machine import describe, load_average  # noqa: E402
from servers import free_port  # noqa: E402

from backends.fake import FakeBackend, Script, chat_script  # noqa: E402
from gateway.app import App  # noqa: E402
from gateway.identity import local_link  # noqa: E402
from gateway.identity.api_keys import local_admin  # noqa: E402
from gateway.settings import load  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
FLOOR, CHAT = "/account", "/chat"  # the floor: a page of the same door with one small sheet and no script
# What is compared, each with the floor before it: in a new tab, and in one where a page of the door is open.
NEW = ("floor", "first visit", "later visit")
OPEN = ("floor, open tab", "first visit, open tab")
READY = ".composer button.primary"  # what scripts add to the field, last of all
TOKEN = 4.5  # characters, about
# Of everything that an answer may hold.
PART = (
    "## Part {number}\n\n"
    + "Some words with **weight** and `code` in them, going on for a line or two of text. " * 4
    + "\n\n- one thing that is said\n- another one\n\nThe error is $s/\\sqrt{{n}}$ here.\n\n```python\n"
    + "    value = compute(value, 12)  # a line of code\n" * 10
    + "```\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n| 3 | 4 |\n\n"
)
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Both are kept from here on, and read when the answer is there.
WATCH = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longTasks.push(task.duration);
  }).observe({ type: "longtask" });
  window.frameTimes = [];
  let last = performance.now();
  const frame = (now) => { window.frameTimes.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


@dataclass(frozen=True)
class Visit:
    painted: float  # ms to the first contentful paint, since the navigation began
    ready: float  # ms until one can write; 0 where there is nothing to write in
    script: float  # ms of CPU that scripts took until then
    thread: float  # ms of CPU that the page's main thread took until then
    bytes: int  # of bodies, as they came over the wire
    requests: int


@dataclass(frozen=True)
class Answer:
    seconds: float
    long_tasks: list[float]  # ms; longer than 50 each
    frames: list[float]  # ms from one to the next
    thread: list[float]  # the share of each half second in which the main thread was busy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="visits of each kind, in turn")
    parser.add_argument("--tokens", type=int, default=10_000, help="of the long answer")
    parser.add_argument("--speed", type=float, default=400.0, help="tokens a second of it")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        valkey(Path(folder)) as redis_url,
        door(redis_url, Path(folder), arguments.tokens, arguments.speed) as (url, link),
    ):
        uvloop.run(measure(url, link, arguments.rounds))
    return 0


async def measure(url: str, link: str, rounds: int) -> None:
    binary = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        session: Any = await signed_in(browser, url + link)
        out(f"{describe()}, load {load_average():.1f} before\n")
        visits: dict[str, list[Visit]] = {name: [] for name in (*NEW, *OPEN)}
        for _ in range(rounds):
            async with await browser.new_context(storage_state=session) as context:
                visits["floor"].append(await visit(context, url + FLOOR, None))
            async with await browser.new_context(storage_state=session) as context:
                visits["first visit"].append(await visit(context, url + CHAT, READY))
                visits["later visit"].append(await visit(context, url + CHAT, READY))
            for name, path, ready in zip(OPEN, (FLOOR, CHAT), (None, READY), strict=True):
                async with await browser.new_context(storage_state=session) as context:
                    visits[name].append(await visit(context, url + path, ready, before=url))
        show_visits(visits)
        async with await browser.new_context(storage_state=session) as context:
            show_answer(await long_answer(await context.new_page(), url + CHAT))
        await browser.close()


async def signed_in(browser: Browser, link: str) -> Any:
    async with await browser.new_context() as context:
        await (await context.new_page()).goto(link)
        return await context.storage_state()


async def visit(context: BrowserContext, url: str, ready: str | None, before: str = "about:blank") -> Visit:
    page = await context.new_page()
    await page.goto(before)
    cost = await costs(page)
    sizes: list[int] = []

    async def weigh(request: Any) -> None:
        response = await request.response()
        if response is not None and not response.from_service_worker:
            sizes.append(max(0, (await request.sizes())["responseBodySize"]))  # less than nothing: kept from before

    page.on("requestfinished", weigh)
    await page.goto(url)
    if ready is not None:
        await page.wait_for_selector(ready)
    done = await page.evaluate("() => performance.now()") if ready else 0.0
    spent = await cost()
    await page.wait_for_load_state("networkidle")
    await page.wait_for_function(PAINTED)
    seen = Visit(
        await page.evaluate(PAINTED), done, spent["ScriptDuration"], spent["ThreadTime"], sum(sizes), len(sizes)
    )
    await page.close()
    return seen


async def long_answer(page: Page, url: str) -> Answer:
    await page.goto(url)
    await page.wait_for_selector(READY)
    cost, clock = await costs(page), asyncio.get_running_loop().time
    await page.evaluate(WATCH)
    await page.keyboard.type("Say it all")
    await page.keyboard.press("Enter")
    busy = page.locator(".message.assistant[aria-busy=true]")
    await busy.locator("h2").nth(1).wait_for()
    looks = [(clock(), (await cost())["ThreadTime"])]
    while await busy.count():
        await asyncio.sleep(0.5)
        looks.append((clock(), (await cost())["ThreadTime"]))
    shares = [(now[1] - before[1]) / 1000 / (now[0] - before[0]) for before, now in pairwise(looks)]
    seconds = looks[-1][0] - looks[0][0]
    return Answer(seconds, await page.evaluate("() => longTasks"), await page.evaluate("() => frameTimes"), shares)


async def costs(page: Page) -> Any:
    """A function that gives what the page's main thread has done so far, in ms by the browser's names."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")

    async def now() -> dict[str, float]:
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        return {one["name"]: one["value"] * 1000 for one in metrics}

    return now


def show_visits(visits: dict[str, list[Visit]]) -> None:
    floor = 0.0
    out("| page | first paint | to the floor's | one can write | scripts | main thread | requests | bytes |")
    out("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, some in visits.items():
        of = {field: [getattr(one, field) for one in some] for field in Visit.__annotations__}
        painted = of["painted"]
        floor = median(painted) if name in (NEW[0], OPEN[0]) else floor
        paint = f"{median(painted):.0f} ms ({min(painted):.0f} to {max(painted):.0f}) | {median(painted) / floor:.1f} x"
        times = " | ".join(f"{median(of[field]):.0f} ms" for field in ("ready", "script", "thread"))
        out(f"| {name} | {paint} | {times} | {max(of['requests'])} | {max(of['bytes'])} |")


def show_answer(answer: Answer) -> None:
    frames, long = sorted(answer.frames), answer.long_tasks
    third = max(1, len(answer.thread) // 3)
    early, late = sum(answer.thread[:third]) / third, sum(answer.thread[-third:]) / third
    out("\n| the long answer | |\n| --- | --- |")
    out(f"| took | {answer.seconds:.0f} s |")
    out(f"| tasks longer than 50 ms | {len(long)}, the longest {max(long, default=0):.0f} ms |")
    out(f"| from frame to frame | p50 {at(frames, 50):.0f} ms, p99 {at(frames, 99):.0f} ms, most {frames[-1]:.0f} ms |")
    out(f"| main thread busy, first and last third | {early * 100:.0f} %, {late * 100:.0f} % |")


def at(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def door(redis_url: str, folder: Path, tokens: int, speed: float) -> Iterator[tuple[str, str]]:
    """A process of its own: its address, and the link that signs its admin in."""
    port, context = free_port(), multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=run_door, args=(redis_url, folder, tokens, speed, port, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}", mine.recv()
    finally:
        process.terminate()
        process.join()


def run_door(redis_url: str, folder: Path, tokens: int, speed: float, port: int, told: Connection) -> None:
    text = "".join(PART.format(number=number) for number in range(int(tokens * TOKEN / len(PART)) + 1))
    words = [text[at : at + round(TOKEN)] for at in range(0, len(text), round(TOKEN))]

    def answer(_: bytes) -> Script:
        return chat_script(words, gap=1 / speed)

    async def serve() -> None:
        app = App(load(redis_url=redis_url, data_dir=folder / "data"), {"native": FakeBackend(answer)})
        config = uvicorn.Config(app, port=port, log_level="warning", access_log=False)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        if app.door is None:
            raise RuntimeError("the door did not open")
        told.send(await local_link.make(app.door.store, (await local_admin(app.door.directory)).id))
        await asyncio.Event().wait()

    uvloop.run(serve())


if __name__ == "__main__":
    sys.exit(main())
