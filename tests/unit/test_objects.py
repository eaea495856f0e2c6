"""The list of objects: whatever a table has is of one kind, and what holds rows is searched for."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.objects import KINDS, kind_of
from firnline.operations.erase.searches import SEARCHES
from firnline.paths import TablePaths
from tests.support.operations import SCENARIOS
from tests.support.places import MemoryPlace
from tests.support.scenarios import Scenario
from tests.support.sweeping import lay_out

ID = "018bcfe5-6815-7000-8000-000000000006"
PATHS = TablePaths("a/t")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (PATHS.append_log(1, ID), "log file"),
        (PATHS.txn_log(1, 2, ID), "log file"),
        (PATHS.txn(1), "transaction"),
        (PATHS.birth, "birth record"),
        (PATHS.checkpoint(1, ID), "checkpoint"),
        (PATHS.data_part("c=1", ID), "part"),
        (PATHS.erase_keys(ID), "keys of an erase"),
        (PATHS.erase_plan(ID), "certificate"),
        (PATHS.certificate(ID), "certificate"),
        (PATHS.completed_certificate(ID), "certificate"),
        (PATHS.run_record(("d", "r"), 1), "record of a run"),
        (PATHS.prepared(ID), "prepared change"),
        (PATHS.prepared(ID, "decision"), "decision on a prepared change"),
        (PATHS.prepared(ID, "closed"), "decision on a prepared change"),
        (PATHS.delta_version(1), "version of the Delta mirror"),
        (PATHS.delta_last_checkpoint, "version of the Delta mirror"),
        (PATHS.vectors(ID), "deletion vectors"),
        (PATHS.vectors_index(ID), "deletion vectors"),
        (PATHS.iceberg_shown(1, 2), "record of what the Iceberg mirror shows"),
        (f"{PATHS.iceberg_metadata_dir}x.avro", "metadata of the Iceberg mirror"),
        (PATHS.probe(ID), "probe"),
        (PATHS.clone_plan, "plan of a clone"),
    ],
)
def test_each_key_is_of_one_kind(key: str, name: str) -> None:
    kind = kind_of(PATHS, key)
    assert kind is not None
    assert kind.name == name
    rest = key.removeprefix("a/t/")
    assert [k.name for k in KINDS if k.pattern.fullmatch(rest)] == [name]


def test_what_is_not_the_products_is_of_no_kind() -> None:
    assert kind_of(PATHS, "a/t2/_log/x.jsonl") is None
    assert kind_of(PATHS, "a/t/notes.txt") is None


def test_what_may_hold_something_of_a_row_is_searched_for_and_nothing_else() -> None:
    for kind in KINDS:
        assert bool(kind.holds) == (kind.search is not None), kind.name
        assert kind.until
    assert {kind.search for kind in KINDS if kind.search is not None} == SEARCHES.keys()


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_no_operation_writes_an_object_of_another_kind(scenario: Scenario, tmp_path: Path) -> None:
    start = lay_out(MemoryPlace(), scenario, tmp_path)
    paths = TablePaths("t")
    keys = {call.partition(" ")[2] for call in start.calls if call.startswith("put ")}
    other = [key for key in keys if key.startswith("t/") and kind_of(paths, key) is None]
    assert other == []
