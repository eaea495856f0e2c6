"""``firnline changes``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cli import Outcome

Firnline = Callable[..., Outcome]


@pytest.fixture
def root(tmp_path: Path, firnline: Firnline) -> str:
    """Twenty-five rows, of which transaction 1 has deleted two, and then one more."""
    root = f"file://{tmp_path}/events"
    appender = Appender(open_table(settings_for_root(root)))
    appender.append(pa.table({"id": list(range(25)), "name": [f"n{n}" for n in range(25)]}))
    assert firnline("delete", root, "--where", "id in (3, 4)", "--yes").code == 0
    appender.append(pa.table({"id": [30], "name": pa.array([None], pa.string())}))
    return root


def test_changes_are_shown_with_the_position_to_continue_from(
    root: str, firnline: Firnline
) -> None:
    done = firnline("changes", root, "--since", "0", "--where", "id >= 23")
    head, _, *rows, blank, many, upto, position = done.out.splitlines()
    assert (done.code, head.split(), blank) == (
        0,
        ["operation", "sequence", "reason", "id", "name"],
        "",
    )
    assert sorted(row.split() for row in rows) == [
        ["insert", "1", "append", "23", "n23"],
        ["insert", "1", "append", "24", "n24"],
        ["insert", "append", "30", "null"],
    ]
    assert many == "3 changed rows."
    assert upto == "Up to transaction 1; the next call continues with"
    again = firnline("changes", root, *position.split())
    assert again.out.splitlines()[0] == "0 changed rows."
    first = firnline("changes", root, "--since", "0").out.splitlines()
    assert len(first) == 2 + 20 + 1 + 1 + 2
    assert first[-3] == (
        "The first 20 changed rows; --limit shows more, --count how many there are, "
        "--to keeps them."
    )


def test_changed_rows_are_counted_by_transaction_and_reason(root: str, firnline: Firnline) -> None:
    lines = [
        line.split()
        for line in firnline("changes", root, "--since", "0", "--count").out.splitlines()
    ]
    assert lines[2:7] == [
        ["1", "append", "25", "0", "0"],
        ["1", "delete", "0", "2", "0"],
        ["-", "append", "1", "0", "0"],
        [],
        ["in", "all", "26", "2", "0"],
    ]
    data = firnline("changes", root, "--since", "1", "--count", "--json").data
    assert data["steps"] == [{"sequence": None, "reason": "append", "rows": {"insert": 1}}]
    nothing = firnline("changes", root, "--since", data["position"], "--count").out
    assert nothing.startswith("No row of events has changed.\n")


def test_all_changes_go_to_a_new_parquet_file(
    root: str, firnline: Firnline, tmp_path: Path
) -> None:
    target = str(tmp_path / "out.parquet")
    done = firnline("changes", root, "--since", "0", "--to", target, "--columns", "id")
    assert done.out.startswith(f"28 changed rows in {target}\n")
    rows = pq.read_table(target).to_pylist()
    assert sorted(row["id"] for row in rows if row["_operation"] == "delete") == [3, 4]
    assert set(rows[0]) == {"id", "_operation", "_sequence", "_reason"}
    for wrong, why in (
        (["--to", target], "exists"),
        (["--to", "x.csv"], "is not the name of a Parquet file"),
        (["--to", "y.parquet", "--count"], "--count and --limit are for the screen"),
        (["--since", "7"], "has no transaction 7"),
        (["--since", "2026-01-03", "--until", "2026-01-01"], "the end '2026-01-01' is before the"),
    ):
        failed = firnline("changes", root, *wrong)
        assert failed.code == 2
        assert why in failed.err


def test_json_has_rows_as_values(root: str, firnline: Firnline) -> None:
    data = firnline("changes", root, "--since", "1", "--json").data
    assert data["columns"] == ["_operation", "_sequence", "_reason", "id", "name"]
    assert data["rows"] == [["insert", None, "append", 30, None]]
    assert (data["seq"], data["more"], data["table"]) == (1, False, "events")
