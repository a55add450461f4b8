"""Progress on a terminal as bars and spinners, elsewhere as plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from gateway.cli.console import err, note

OnReady = Callable[[str, float], None]


@contextmanager
def starting(names: Sequence[str]) -> Iterator[OnReady]:
    """Shows what is still starting. Yields what is to be called as (name, seconds) when a part is ready."""
    if not err.is_terminal:
        yield lambda name, seconds: note(f"{name} is ready ({seconds:.1f} s)")
        return
    columns = (SpinnerColumn(finished_text="[green]✓[/]"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err) as bars:
        tasks = {name: bars.add_task(f"starting {name}", total=1) for name in names}
        yield lambda name, seconds: bars.update(tasks[name], completed=1, description=f"{name} is ready")


OnLines = Callable[[str, int, int, int], None]


@contextmanager
def lines_of(subject: str) -> Iterator[OnLines]:
    """How far a batch is. Yields what is to be called as (status, completed, failed, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        task, told = bars.add_task(subject, total=None), ""

        def tell(status: str, completed: int, failed: int, total: int) -> None:
            nonlocal told
            said = f"{status}, {failed} failed" if failed else status
            bars.update(task, description=f"{subject}: {said}", completed=completed + failed, total=total or None)
            if bars.disable and status != told:
                note(f"{subject}: {status} ({completed + failed} of {total})")
            told = status

        yield tell


class Steps:
    """Progress in named steps of known or unknown size, as `native_engine.loading.store.pull` reports it."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._tasks: dict[str, TaskID] = {}
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bars = Progress(*columns, console=err, disable=not err.is_terminal)

    def __enter__(self) -> Steps:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if step not in self._tasks:
            self._tasks[step] = self._bars.add_task(f"{step} {self._subject}", total=None)
            if self._bars.disable:
                note(f"{step} {self._subject} ...")
        self._bars.update(self._tasks[step], completed=done, total=total)
