#!/usr/bin/env python3
"""Our engine against others on the same machine and the same weights, in turn (A B A B). Never part of the tests.

    .venv/bin/python deploy/bench/peers.py install llamacpp   # its server into .peers/: builds for some minutes
    .venv/bin/python deploy/bench/peers.py install vllm       # vLLM for CPUs into .peers/
    .venv/bin/python deploy/bench/peers.py measure --gguf model.gguf --json result.json

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from installing import INSTALLERS, PEERS, bf16_weights, llama_server, vllm_command  # noqa: E402
from machine import describe, load_average  # noqa: E402
from rich.console import Console  # noqa: E402
from servers import Plan, Server, llama, ours_running, ours_started, vllm  # noqa: E402
from table import Cell, markdown  # noqa: E402

from backends.bench import BenchConfig, BenchError, Report, live_progress, run_bench  # noqa: E402

console = Console(stderr=True, highlight=False)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments) or 0)
    except (BenchError, RuntimeError, subprocess.CalledProcessError) as error:
        console.print(str(error), style="red", markup=False)
        return 1


def install(arguments: argparse.Namespace) -> None:
    for name in arguments.peer:
        console.print(f"Installing {name} into {PEERS / name}; this takes some minutes.")
        began = time.monotonic()
        INSTALLERS[name]()
        console.print(f"{name} is installed, after {time.monotonic() - began:.0f} s.")


def measure(arguments: argparse.Namespace) -> None:
    machine = describe()
    console.print(machine, soft_wrap=True)
    if (load := load_average()) > 0.5:
        console.print(f"Something else is running here (load {load:.1f}): the figures will suffer.", style="yellow")
    cells: list[Cell] = []
    with ours(arguments) as own, optional_vllm(arguments) as second:
        for level in arguments.concurrency:
            cells += _measure_level(arguments, own, second, level)
        if arguments.one_slot_at:
            with llama(plan(arguments, 1), _llama_server(arguments), "llama.cpp, one slot") as one_slot:
                cells.append(_measure(arguments, one_slot, arguments.one_slot_at, 0))
    sys.stderr.flush()
    sys.stdout.write(f"\n{machine}\n\n{markdown(cells)}\n")
    if arguments.json:
        document = {"machine": machine, "arguments": _plain(arguments), "runs": [cell.to_dict() for cell in cells]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def _measure_level(arguments: argparse.Namespace, own: Server, second: Server | None, level: int) -> list[Cell]:
    """Every server in turn, round after round. llama.cpp divides its context by its slots: one start a level."""
    with llama(plan(arguments, level), _llama_server(arguments), "llama.cpp") as peer:
        servers = [own, peer, *([second] if second else [])]
        return [_measure(arguments, server, level, number) for number in range(arguments.rounds) for server in servers]


def _measure(arguments: argparse.Namespace, server: Server, level: int, number: int) -> Cell:
    config = BenchConfig(
        url=server.url,
        api_key=server.api_key,
        num_requests=max(4, level * arguments.requests_per_client),
        concurrency=level,
        input_tokens=arguments.input_tokens,
        output_tokens=arguments.output_tokens,
        seed=1000 * level + number,  # new prompts each time: no server may answer from its prefix cache
    )
    console.print(f"{server.name}, {level} in parallel, round {number + 1}")
    with live_progress(console) as on_progress:
        report: Report = run_bench(config, on_progress)
    ttft = report.spreads["ttft"].median / 1000
    console.print(f"  {report.output_throughput:.0f} tok/s, TTFT p50 {ttft:.2f} s, {report.failed} failed")
    return Cell(server.name, level, report, server.memory_bytes())


def plan(arguments: argparse.Namespace, slots: int) -> Plan:
    return Plan(
        gguf=arguments.gguf,
        context=arguments.input_tokens + arguments.output_tokens + 64,
        slots=slots,
        threads=arguments.threads,
        logs=PEERS / "logs",
    )


def ours(arguments: argparse.Namespace) -> Server:
    if arguments.ours:
        return ours_running(arguments.ours, arguments.api_key)
    return ours_started(plan(arguments, max(arguments.concurrency)))


def optional_vllm(arguments: argparse.Namespace) -> AbstractContextManager[Server | None]:
    if not arguments.vllm:
        return nullcontext()
    command = vllm_command()
    if command is None:
        raise RuntimeError("vLLM is not installed: run `peers.py install vllm`")
    return vllm(plan(arguments, max(arguments.concurrency)), command, bf16_weights(arguments.gguf))


def _llama_server(arguments: argparse.Namespace) -> Path:
    found = arguments.llama_server or llama_server()
    if found is None:
        raise RuntimeError("llama-server is not installed: run `peers.py install llamacpp`, or name one")
    return Path(found)


def _plain(arguments: argparse.Namespace) -> dict[str, object]:
    hidden = {"run", "api_key"}
    return {key: str(value) if isinstance(value, Path) else value for key, value in vars(arguments).items()
            if key not in hidden}  # fmt: skip


def _levels(text: str) -> list[int]:
    return [int(level) for level in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("install", help="install peers into .peers/")
    first.add_argument("peer", nargs="*", choices=[*INSTALLERS], default=["llamacpp"])
    first.set_defaults(run=install)
    second = commands.add_parser("measure", help="measure ours and the peers in turn")
    second.add_argument("--gguf", type=Path, required=True, help="the weights, the same for both")
    second.add_argument("--ours", help="URL of a running gateway or engine, instead of starting an engine")
    second.add_argument("--api-key", help="for --ours")
    second.add_argument("--llama-server", type=Path, help="a llama-server that is installed elsewhere")
    second.add_argument("--vllm", action="store_true", help="measure vLLM too, with the model's weights in bf16")
    second.add_argument("--concurrency", type=_levels, default=[1, 4, 8, 16, 32], help="such as 1,4,8,16,32")
    second.add_argument("--one-slot-at", type=int, default=16, help="also llama.cpp with one slot, at this load; 0: no")
    second.add_argument("--rounds", type=int, default=2)
    second.add_argument("--requests-per-client", type=int, default=2)
    second.add_argument("--input-tokens", type=int, default=128)
    second.add_argument("--output-tokens", type=int, default=128)
    second.add_argument("--threads", type=int, default=2, help="llama-server's -t")
    second.add_argument("--json", type=Path, help="also write everything here")
    second.set_defaults(run=measure)
    return parser


if __name__ == "__main__":
    sys.exit(main())
