"""With --dry-run nothing changes, whatever else is said."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from tests.support.cli import Outcome, content_of, inside
from tests.support.on_store import merge, opened
from tools.s3server import StoreRoot

LINES = (
    "merge {root} --dry-run",
    "drop {root} d=1 --dry-run --yes",
    "delete {root} --where x=1 --eager --dry-run --yes",
    "erase {root} --column x --key 1 --dry-run --yes",
    "rewrite {root} --where x=1 --dry-run --yes",
    "restore {root} --to 1 --dry-run --yes",
    "evolve {root} --rename x=y --dry-run --yes",
    "evolve {root} --rename x=y --lazy --dry-run --yes",
    "cleanup {root} --dry-run",
    "rebuild {root} --dry-run --yes --force",
    "sweep {root}",
    "drop-table {root} --dry-run --yes",
    "tables {root}",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two partitions and one transaction, in which every operation has work."""
    folder = tmp_path_factory.mktemp("dry")
    table = opened(
        StoreRoot("file", f"file://{folder}/tables", {}),
        partition_by=["d"],
        sort_by=[],
        merge={"min_inputs": 2},
    )
    for number in range(4):
        Appender(table).append(pa.table({"d": [1, 2], "x": [number, number]}))
        if number == 1:
            merge(table, folder / "scratch")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("line", LINES)
def test_a_dry_run_changes_nothing_and_needs_no_yes(
    folder: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place,) = (folder / "tables").iterdir()
    before = content_of(place)
    done: Outcome = inside(capsys)(*line.format(root=f"file://{place}").split())
    assert (done.code, done.err) == (0, "")
    assert done.out
    assert content_of(place) == before
