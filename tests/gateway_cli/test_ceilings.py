"""What bounds a server, from flags and from what this machine is found to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends.bench import bound
from backends.bench.bound import Ceiling, Rates
from gateway.cli import ceilings
from gateway.cli.ceilings import ceiling_of, machine_rates


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is quicker when it is measured again, its products are slower."""
    monkeypatch.setattr(bound, "copy_bandwidth", iter([5e9, 8e9]).__next__)
    monkeypatch.setattr(bound, "product_rate", iter([3e9, 2e9]).__next__)
    monkeypatch.setattr(ceilings, "_GPU_DRIVERS", ())


def found(of: Callable[[str], Ceiling | str], model: str = "smollm2-135m") -> Ceiling:
    ceiling = of(model)
    assert isinstance(ceiling, Ceiling), ceiling
    return ceiling


def test_a_ceiling_is_the_best_that_was_seen_before_and_after_the_runs() -> None:
    ceiling = found(ceiling_of("unix:/engine", None, None, (None, None)))
    assert ceiling.rates == Rates(8e9, 3e9)
    assert ceiling.about == "smollm2-135m in Q4_1, 8.0 GB/s and 3 GFLOP/s measured here"


def test_what_is_given_goes_before_what_was_measured() -> None:
    assert found(ceiling_of("unix:/engine", None, "INT8", (None, 7e9))).rates == Rates(8e9, 7e9)
    assert found(ceiling_of("http://192.0.2.1", "qwen3-8b", None, machine_rates("l4", 2e11, None))).rates == Rates(
        2e11, 121e12
    )


def test_without_a_rate_of_products_it_says_that_they_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "product_rate", lambda: None)
    assert "prompts and products left out" in found(ceiling_of("unix:/engine", None, None, (None, None))).about


def test_a_server_elsewhere_or_on_a_gpu_is_not_measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is on another machine: give --hardware" in str(
        ceiling_of("http://192.0.2.1:1", None, None, (None, None))("qwen3-8b")
    )
    monkeypatch.setattr(ceilings, "_GPU_DRIVERS", ("/",))
    assert "there is a GPU here" in str(ceiling_of("unix:/engine", None, None, (None, None))("qwen3-8b"))


def test_a_model_is_known_by_its_name_here_or_on_the_hub() -> None:
    of = ceiling_of("http://192.0.2.1", None, None, (1e12, None))
    assert found(of, "Qwen/Qwen3-8B").shape == found(of, "qwen3-8b").shape
    assert "give --shape" in str(of("my-own"))
