"""The queue's settings: tables that name some classes leave the others as they are."""

from __future__ import annotations

import pytest

from gateway.settings import SettingsError, TokenWeights, load


def test_a_table_that_names_one_class_leaves_the_others() -> None:
    settings = load(environ={"SEKISHO_CLASS_WEIGHTS": '{"batch": 2}', "SEKISHO_STARVATION_SECONDS": '{"api": 5}'})
    assert settings.class_weights == {"interactive": 8, "api": 4, "batch": 2}
    assert settings.starvation_seconds == {"interactive": 10, "api": 5, "batch": 40}
    assert settings.class_max_queue == settings.class_queue_timeout == {}


@pytest.mark.parametrize("value", ['{"urgent": 1}', '{"api": 0}', '{"api": -1}', '{"api": "much"}', "[]", "{"])
def test_what_is_no_table_of_classes_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={"SEKISHO_CLASS_WEIGHTS": value})
    assert all(fault.setting.startswith("class_weights") for fault in caught.value.faults)


def test_output_counts_more_than_input_and_cached_input_less() -> None:
    weights = TokenWeights(input=1, cached=0.1, output=4)
    assert weights.of(prompt=1000, cached=800, output=100) == pytest.approx(200 + 80 + 400)
