"""What holds for every test: no setting leaks in from the machine it runs on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator

import pytest
from hypothesis import settings

from tests.external.provider import make_provider, provider, provider_control

# Fixtures for every test.
__all__ = ["clean_environment", "make_provider", "provider", "provider_control", "same_logging", "tell"]

# Triton reads this where it is first imported. Torch could tell better whether there is a GPU, but takes seconds.
if not any(map(os.path.exists, ("/dev/nvidia0", "/dev/kfd"))):
    os.environ.setdefault("TRITON_INTERPRET", "1")


# Workers share the processors already. Read where torch is first imported, and by the engines that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

_TOLD = "told"

# A console keeps the width that it finds when it is made.
os.environ.pop("COLUMNS", None)

# Seconds. Where three processes share two cores an answer of Redis may take longer than people should wait for one.
REDIS_TIMEOUT = 10.0
os.environ["SEKISHO_REDIS_TIMEOUT"] = str(REDIS_TIMEOUT)

# How long an example takes is the machine's affair.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no SEKISHO_* setting but those that they set themselves, and that patience."""
    for name in [name for name in os.environ if name.startswith("SEKISHO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SEKISHO_REDIS_TIMEOUT", str(REDIS_TIMEOUT))


@pytest.fixture(autouse=True)
def same_logging() -> Generator[None, None, None]:
    """A command that a test calls in its own process sets up its logs, on a stream that is closed when it ends."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Takes a text that is printed behind the run, also where the test passes."""
    return lambda text: record_property(_TOLD, text)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: one that came last would be waited for by all other workers."""
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "system")))}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A worker ends where it has to send half a character, which a test of hostile text may have logged."""
    report = yield
    report.sections = [(name, text.encode(errors="replace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for text in [text for name, text in report.user_properties if name == _TOLD and report.when == "call"]:
            terminalreporter.section(report.nodeid)
            terminalreporter.write_line(str(text))
