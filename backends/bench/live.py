"""A progress bar for a run in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from backends.bench.runner import OnProgress, Progress


@contextmanager
def live_progress(console: Console | None = None) -> Iterator[OnProgress]:
    """`with live_progress() as on_progress: run_bench(config, on_progress)`. Draws nothing where no one looks."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}"),
    )
    # Twice a second: drawing shares its cores with the server under test.
    with Bar(*columns, console=console or Console(stderr=True), refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("warming up", total=None, state="")

        def show(progress: Progress) -> None:
            state = f"{progress.running} running, {progress.output_throughput:.0f} tok/s"
            if progress.failed:
                state += f", {progress.failed} failed"
            bar.update(task, description="measuring", total=progress.total, state=state)
            bar.update(task, completed=progress.done + progress.failed)

        yield show
