"""Requests of erasure in Python: one object for all that can be done with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import firnline
from firnline.errors import UsageError
from firnline.state.history import history


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "tables.yaml"
    path.write_text(
        f"erasure: {{requests: 'file://{tmp_path}/requests'}}\n"
        f"tables: {{orders: {{root: 'file://{tmp_path}/orders', person: [customer]}}}}\n"
    )
    table = firnline.open_table("orders", settings=path)
    firnline.append(table, [{"customer": n} for n in range(3)])
    (tmp_path / "keys.csv").write_text("customer\n1\n")
    return path


def test_a_request_from_file_to_bundle(settings: Path) -> None:
    place = settings.parent
    erasures = firnline.erasures(settings)
    taken = erasures.ask(place / "keys.csv", received="2026-01-02", due="2099-01-01T12:00")
    assert taken.request.taken_by.run_id.startswith("python-")
    assert [each.table for each in erasures.look().batches] == ["orders"]
    (erased,) = erasures.run().tables
    assert erased.rows == 1
    table = firnline.open_table("orders", settings=settings)
    (header, *_) = history(table)
    assert (header.op, header.run.run_id.partition("-")[0]) == ("erase", "python")
    files = erasures.bundle(taken.request.id, place / "bundle")
    assert place / "bundle/orders/verify_table.py" in files
    assert erasures.withdraw(taken.request.id, "a test").withdrawn == "a test"


def test_a_time_that_is_none_is_refused(settings: Path) -> None:
    with pytest.raises(UsageError, match="received 'yesterday' is not a time"):
        firnline.erasures(settings).ask(settings.parent / "keys.csv", received="yesterday")


def test_arguments_of_other_types_are_refused_before_anything_is_written(settings: Path) -> None:
    place = settings.parent
    api: Any = firnline.erasures(settings)
    calls: list[Callable[[], object]] = [
        lambda: api.ask(place / "keys.csv", reference=4711),
        lambda: api.ask(place / "keys.csv", without="orders"),
        lambda: api.ask(place / "keys.csv", received=5),
        lambda: api.ask(5),
        lambda: api.withdraw(5, "x"),
        lambda: api.bundle("x", 5),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert not (place / "requests").exists()


def test_a_bundle_goes_into_a_new_folder(settings: Path) -> None:
    with pytest.raises(UsageError, match="not an empty folder"):
        firnline.erasures(settings).bundle("x", settings.parent)
