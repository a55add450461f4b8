#!/usr/bin/env python3
"""How much the load generator of `sekisho bench serve` can measure: people who each read at 30 tok/s, from an engine
that does nothing else, more and more of them; and whether the generator says that it was the bottleneck.

    .venv/bin/python deploy/bench/generator.py

Its own CPU time for each piece of text is told too, which other programs on the machine hardly change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
from pathlib import Path

import uvloop
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from machine import describe  # noqa: E402
from servers import free_port  # noqa: E402

from backends.bench import BenchConfig, run_bench  # noqa: E402

out = Console(highlight=False, soft_wrap=True).print
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d}}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Engine(asyncio.Protocol):
    """Answers each completion with as many pieces of text as it asks for, evenly in time."""

    seconds_a_piece = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length or 0):
            return
        self._buffer = b""
        if head.startswith(b"GET"):  # it shows no metrics
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return
        self._transport.write(HEAD)
        wanted = json.loads(body)["max_tokens"]
        self._send(wanted, wanted, asyncio.get_running_loop().time())

    def _send(self, left: int, wanted: int, due: float) -> None:
        if self._transport.is_closing():
            return
        if not left:
            self._transport.write(_chunk(END + USAGE % wanted) + b"0\r\n\r\n")
            return
        self._transport.write(_chunk(TEXT))
        due += self.seconds_a_piece
        asyncio.get_running_loop().call_at(due, self._send, left - 1, wanted, due)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", default="32,128,256,512,1024", help="at once, in turn")
    parser.add_argument("--speed", type=float, default=30.0, help="pieces of text a second, each")
    parser.add_argument("--pieces", type=int, default=150, help="of an answer")
    arguments = parser.parse_args()
    out(
        describe(),
        f"\n\n{'people':>8}{'tok/s':>9}{'of it asked':>13}{'CPU':>7}{'us each':>9}{'late ms':>9}  bottleneck",
    )
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port, arguments.speed), daemon=True)
    process.start()
    _until_open(port)
    for people in map(int, arguments.people.split(",")):
        config = BenchConfig(
            url=f"http://127.0.0.1:{port}", model="fake", num_requests=people, output_tokens=arguments.pieces
        )
        report = run_bench(config)
        strain, pieces = report.strain, report.total_output_tokens
        each = strain.cpu_share * report.duration / pieces * 1e6
        share = report.output_throughput / (people * arguments.speed)
        said = "; ".join(strain.bottlenecks) or "no"
        out(f"{people:8}{report.output_throughput:9.0f}{share:11.0%}{strain.cpu_share:7.0%}{each:9.0f}"
            f"{strain.loop_lag.p95:9.1f}  {said}")  # fmt: skip
    process.terminate()
    return 0


def _serve(port: int, speed: float) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", port, backlog=4096)
        await server.serve_forever()

    Engine.seconds_a_piece = 1 / speed
    uvloop.run(serve())


def _until_open(port: int) -> None:
    async def wait() -> None:
        for _ in range(300):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return
        raise RuntimeError(f"nothing listens on port {port}")

    uvloop.run(wait())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    sys.exit(main())
