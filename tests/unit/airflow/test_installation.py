"""What `firnline doctor` asks an Airflow for."""

from __future__ import annotations

from firnline.airflow.installation import why_silent


def test_a_notifier_that_cannot_be_imported_is_told_with_the_reason() -> None:
    assert why_silent("tests.support.notifier.Told") is None
    assert why_silent("no_such.Told") == "ModuleNotFoundError: No module named 'no_such'"
    assert why_silent("tests.support.notifier.Other") == (
        "AttributeError: module 'tests.support.notifier' has no attribute 'Other'"
    )
