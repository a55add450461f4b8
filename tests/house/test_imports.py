"""The arrows of the design hold, and importing the door costs no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.tree import ROOT

# Only where a collector is named. (redis-py takes OpenTelemetry's metrics in by itself where it finds them.)
TRACING = {"opentelemetry.sdk.trace", "opentelemetry.exporter", "google.protobuf", "requests"}


def test_import_arrows_point_down() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("gateway.app", {"torch", "triton", "transformers", "numpy", "native_engine", "kernels", *TRACING}),
        ("gateway.cli.main", {"torch", "triton", "transformers", "numpy", "native_engine", "kernels", "starlette"}),
        ("backends.bench", {"torch", "numpy", "native_engine", "gateway"}),
        ("backends.capacity", {"torch", "numpy", "native_engine", "gateway"}),
        ("native_engine.scheduler", {"torch", "numpy", "kernels", "gateway"}),
        # The port answers before torch is imported.
        ("native_engine.server.serve", {"torch", "kernels", "gateway", *TRACING}),
        ("native_engine.loading.store", {"torch", "kernels", "gateway"}),
    ],
)
def test_importing_stays_light(module: str, heavy: set[str]) -> None:
    """In a fresh process: other tests may have imported anything."""
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert heavy & set(result.stdout.split()) == set()
