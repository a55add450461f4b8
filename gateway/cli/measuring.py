"""Flags that `bench sweep` and `verify` share: what is asked of a server, and for how long."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

Target = Annotated[float, typer.Option(min=0.1, help="Output tokens a second that each should have.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller, for a laptop: under ten minutes.")]
InputTokens = Annotated[int | None, typer.Option(min=1, help="Length of a prompt. [default: 128; quick: 64]")]
OutputTokens = Annotated[int | None, typer.Option(min=2, help="Length of an answer. [default: 128; quick: 32]")]
Repeats = Annotated[int | None, typer.Option(min=1, help="Runs of each point. [default: 3; quick: 2]")]
IgnoreEos = Annotated[bool, typer.Option(help="Answers of exactly the length; not every service knows it.")]
Seed = Annotated[int, typer.Option(help="Of the prompts; each run takes the next one.")]
Timeout = Annotated[float, typer.Option(help="Seconds for one request.")]


class Size(NamedTuple):
    """rounds: requests of each place of a closed loop; repeats: runs of each point."""

    rounds: int
    repeats: int
    input_tokens: int
    output_tokens: int


FULL = Size(4, 3, 128, 128)
QUICK = Size(2, 2, 64, 32)  # a laptop's CPU carries it
