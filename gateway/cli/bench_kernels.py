"""`sekisho bench kernels`: what the GPU's kernels reach of what the GPU can do; without one, what they compile to."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from gateway.cli.console import CliError, plain
from gateway.cli.engine import require_engine


def kernels(
    compile_only: Annotated[
        bool, typer.Option("--compile", help="Compile them for GPUs that need not be there; print what they became.")
    ] = False,
) -> None:
    """Check and time every GPU kernel, beside the copy bandwidth and the product rate measured in the same run."""
    require_engine()
    if importlib.util.find_spec("triton") is None:
        raise CliError("the GPU's kernels need Triton: pip install 'sekisho[gpu]'")
    from native_engine import kernel_bench

    if compile_only:
        text, faulty = kernel_bench.compiled()
        plain(text)
        if faulty:
            raise CliError(f"{len(faulty)} kernels do not compile as they should; see FAULT above")
    elif kernel_bench.has_gpu():
        for line in kernel_bench.run_on_gpu():
            plain(line)
    else:
        raise CliError("there is no GPU here to time kernels on; --compile tells what they become on several kinds")
