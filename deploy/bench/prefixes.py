#!/usr/bin/env python3
"""Whether requests that begin alike find their beginning computed: cache hits and times to the first token.

    .venv/bin/python deploy/bench/prefixes.py

Four engines of ours behind one gateway, and requests that each put a question of their own after one of eight shared
instructions, of which each engine's cache holds about three. Several ways to choose an engine, in turn: the same
requests, and everything started afresh. The ways to compare with are made here, by replacing the gateway's choice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import aiohttp
import uvicorn
import yaml
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from fairness import KEY, Run, svg  # noqa: E402
from identify import valkey  # noqa: E402
from machine import describe, load_average  # noqa: E402
from servers import Server, free_port  # noqa: E402

from backends.bench.prompts import WORDS  # noqa: E402
from gateway.app import App  # noqa: E402
from gateway.routing.journey import Journey  # noqa: E402
from gateway.routing.member import Member  # noqa: E402
from gateway.routing.prefill import PrefillSpeed  # noqa: E402
from gateway.routing.router import Way  # noqa: E402
from gateway.routing.score import Candidate, Choice  # noqa: E402
from gateway.settings import load  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
MODEL = "model"
READY_SECONDS = 60
# More than any request that runs could outweigh.
DEAR = 1e6

Choices = tuple[Choice, ...]


class Policy(NamedTuple):
    """`make` replaces the costs of the backends; None leaves the gateway as it is. `named`: with X-Prefix-Id."""

    name: str
    make: Callable[[], Callable[[Choices], Choices]] | None
    named: bool = False


class Request(NamedTuple):
    instruction: int
    messages: list[dict[str, str]]


class Answer(NamedTuple):
    wait: float  # seconds to the first token
    prompt_tokens: int
    cached_tokens: int


class Result(NamedTuple):
    policy: Policy
    answers: list[Answer]
    seconds: float
    served: dict[str, int]

    @property
    def waits(self) -> Run:
        return Run(self.policy.name, True, 0, {"": [answer.wait for answer in self.answers]})

    @property
    def cached(self) -> float:
        """The part of all prompts' tokens that the engines found in their caches, as they tell it."""
        return sum(one.cached_tokens for one in self.answers) / sum(one.prompt_tokens for one in self.answers)


def round_robin() -> Callable[[Choices], Choices]:
    """The next in turn; where that is full, the one after it."""
    turns = count()

    def choose(choices: Choices) -> Choices:
        turn, names = next(turns), sorted(choice.backend for choice in choices)
        return tuple(Choice(name, DEAR * (1 + (index - turn) % len(names))) for index, name in enumerate(names))

    return choose


def least_loaded() -> Callable[[Choices], Choices]:
    """Where the queue's exact counts say that fewest run."""
    return lambda choices: tuple(Choice(choice.backend, 1.0) for choice in choices)


POLICIES = (
    Policy("round robin", round_robin),
    Policy("least loaded", least_loaded),
    Policy("prefix affinity", None),
    Policy("prefix affinity, X-Prefix-Id", None, named=True),
)


def main() -> int:
    arguments = parsed()
    if (busy := load_average()) > 0.5:
        out(f"Something else is running here (load {busy:.1f}): the figures will suffer.", style="yellow")
    out(describe())
    out(
        f"\n{arguments.backends} engines with {arguments.cache_tokens} tokens of cache each, {arguments.instructions} "
        f"instructions of {arguments.instruction_tokens} tokens, {arguments.clients} clients"
    )
    out("\n| policy | requests | prompt tokens cached | TTFT p50 | p95 | all took | requests by backend |")
    out("| --- | --- | --- | --- | --- | --- | --- |")
    results = []
    for policy in POLICIES:
        results.append(measure(policy, arguments))
        show(results[-1])
    arguments.folder.mkdir(parents=True, exist_ok=True)
    plot = arguments.folder / "waits.svg"
    plot.write_text(svg([result.waits for result in results]), "utf-8")
    out(f"\n{plot}")
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="what the engines serve: as for sekisho engine")
    parser.add_argument("--requests", type=int, default=96, help="of each policy")
    parser.add_argument("--clients", type=int, default=4, help="each asks again as soon as it is answered")
    parser.add_argument("--instructions", type=int, default=8)
    parser.add_argument("--skew", type=float, default=0.0, help="the nth instruction is asked n^-SKEW as often")
    parser.add_argument("--instruction-tokens", type=int, default=400)
    parser.add_argument("--question-tokens", type=int, default=50)
    parser.add_argument("--answer-tokens", type=int, default=12)
    parser.add_argument("--backends", type=int, default=4)
    parser.add_argument("--context", type=int, default=512, help="tokens of one request at most")
    parser.add_argument("--sequences", type=int, default=3, help="that an engine runs at once; its cache holds no more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "prefixes", help="for the plot and the logs")
    arguments = parser.parse_args()
    arguments.cache_tokens = arguments.context * arguments.sequences
    return arguments


def measure(policy: Policy, arguments: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        redis_url = stack.enter_context(valkey(folder))
        names = [f"engine-{number + 1}" for number in range(arguments.backends)]
        servers = [stack.enter_context(engine(name, folder, arguments)) for name in names]
        file = folder / "sekisho.yaml"
        file.write_text(yaml.safe_dump(settings(servers, redis_url, folder, arguments)), "utf-8")
        url = stack.enter_context(gateway(file, policy))
        return asyncio.run(asked(url, policy, arguments))


def engine(name: str, folder: Path, arguments: argparse.Namespace) -> Server:
    path = folder / f"{name}.sock"
    command = [sys.executable, "-m", "gateway.cli.main", "engine", "--model", arguments.model, "--uds", str(path)]
    command += ["--served-model-name", MODEL, "--num-threads", "1", "--max-model-len", str(arguments.context)]
    command += ["--max-num-seqs", str(arguments.sequences)]
    return Server(name, f"unix:{path}", command, logs=arguments.folder)


def settings(servers: list[Server], redis_url: str, folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    return {
        "redis_url": redis_url,
        "data_dir": str(folder / "data"),
        "bootstrap_key": KEY,
        "max_concurrency": arguments.sequences,
        "target_tokens_per_second": 0,
        "queue_timeout": 600,
        "backends": [{"name": server.name, "kind": "native", "url": server.url} for server in servers],
    }


@contextmanager
def gateway(file: Path, policy: Policy) -> Iterator[str]:
    port, context = free_port(), multiprocessing.get_context("spawn")
    process = context.Process(target=run_gateway, args=(file, port, policy), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


def run_gateway(file: Path, port: int, policy: Policy) -> None:
    logging.disable(logging.WARNING)  # a line for each engine that is found
    with ExitStack() as stack:
        if policy.make is not None:
            choose, ways = policy.make(), Journey.ways

            def chosen(journey: Journey) -> list[Way]:
                return [Way(way.line, choose(way.choices)) for way in ways(journey)]

            stack.enter_context(patch.object(Journey, "ways", chosen))
            stack.enter_context(patch("gateway.rooms.candidate", never_learned))
        uvicorn.run(App(load(file)), port=port, log_level="error", access_log=False)


def never_learned(member: Member) -> Candidate:
    """One more that runs is believed to cost the same everywhere."""
    return Candidate(member.name, PrefillSpeed())


async def asked(url: str, policy: Policy, arguments: argparse.Namespace) -> Result:
    left, answers = iter(requests(arguments)), list[Answer]()
    headers, timeout = {"authorization": f"Bearer {KEY}"}, aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(url, headers=headers, timeout=timeout) as client:
        await ready(client, arguments.backends)
        started = time.monotonic()

        async def asks_again() -> None:
            for request in left:
                answers.append(await ask(client, policy, request, arguments.answer_tokens))

        await asyncio.gather(*(asks_again() for _ in range(arguments.clients)))
        return Result(policy, answers, time.monotonic() - started, await metric(client, "attempts_total"))


def requests(arguments: argparse.Namespace) -> list[Request]:
    """The same for every policy."""
    rng = random.Random(arguments.seed)

    def text(tokens: int) -> str:
        return " ".join(rng.choices(WORDS, k=tokens))  # each about a token

    instructions = [text(arguments.instruction_tokens) for _ in range(arguments.instructions)]
    weights = [(1 + number) ** -arguments.skew for number in range(arguments.instructions)]
    return [
        Request(number, [
            {"role": "system", "content": instructions[number]},
            {"role": "user", "content": text(arguments.question_tokens)},
        ])
        for number in rng.choices(range(arguments.instructions), weights, k=arguments.requests)
    ]  # fmt: skip


async def ask(client: aiohttp.ClientSession, policy: Policy, request: Request, answer_tokens: int) -> Answer:
    body = {"model": MODEL, "messages": request.messages, "max_tokens": answer_tokens, "temperature": 0}
    body |= {"ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    headers = {"x-prefix-id": f"instruction-{request.instruction}"} if policy.named else {}
    started, wait, usage = time.monotonic(), 0.0, None
    async with client.post("/v1/chat/completions", json=body, headers=headers) as response:
        async for line in response.content:
            if line.startswith(b"data: {"):
                chunk = json.loads(line.removeprefix(b"data: "))
                usage = chunk.get("usage") or usage
                if not wait and any(choice["delta"].get("content") for choice in chunk.get("choices", ())):
                    wait = time.monotonic() - started
    if response.status != 200 or usage is None:
        raise RuntimeError(f"a request was not answered: {response.status}; the engines' logs tell more")
    return Answer(wait, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])


async def ready(client: aiohttp.ClientSession, backends: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            if sum((await metric(client, "backend_up")).values()) == backends:
                return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.2)
    raise RuntimeError("the gateway did not find all engines")


async def metric(client: aiohttp.ClientSession, name: str) -> dict[str, int]:
    """By backend."""
    async with client.get("/metrics") as response:
        found = re.findall(rf'^sekisho_{name}{{backend="([\w-]+)".*}} (\S+)', await response.text(), re.MULTILINE)
    return {backend: int(float(value)) for backend, value in sorted(found)}


def show(result: Result) -> None:
    served = ", ".join(map(str, result.served.values()))
    out(
        f"| {result.policy.name} | {len(result.answers)} | {result.cached:.0%} | {result.waits.at(50):.2f} s | "
        f"{result.waits.at(95):.2f} s | {result.seconds:.0f} s | {served} |"
    )


if __name__ == "__main__":
    sys.exit(main())
