"""``firnline timeline``: the picture, with and without Unicode, and its data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cli.drawing import marks
from firnline.operations.inspect.axis import Axis
from tests.support.cli import Outcome, settings_file

Firnline = Callable[..., Outcome]
DAY = 86_400_000_000_000


@pytest.fixture
def root(tmp_path: Path, firnline: Firnline) -> str:
    """Parts of 0 to 49 and 50 to 100; 40 to 69 replaced by 50 to 59, lazily."""
    url = f"file://{tmp_path}/events"
    path = settings_file(
        tmp_path, f"tables: {{events: {{root: '{url}', sort_by: [n], deletes: lazy}}}}"
    )
    rows = tmp_path / "rows.parquet"
    for values in (range(50), range(50, 101)):
        pq.write_table(pa.table({"n": list(values)}), rows)
        firnline("append", "events", rows, "--settings", path)
    pq.write_table(pa.table({"n": list(range(50, 60))}), rows)
    done = firnline(
        "replace", "events", rows, "--start", "40", "--end", "70", "--yes", "--settings", path
    )
    assert done.code == 0, done.err
    return url


def test_a_replace_is_a_bar_above_a_hatch_above_what_it_hides(
    firnline: Firnline, root: str
) -> None:
    out = firnline("timeline", root, "--column", "n", "--ascii").out
    lines = out.splitlines()
    assert lines[0] == "events: n from 0 to 100, the newest sequence on top"
    new, record, old = (line.partition("|") for line in lines[2:5])
    assert (new[0].split(), record[0].split()) == (["1", "1", "part"], ["1", "replace"])
    assert old[0].split() == ["0", "2", "parts"]
    hatched = record[2].index("/"), record[2].rindex("/")
    assert hatched[0] < new[2].index("#") < new[2].index("]") < hatched[1]
    assert old[2].index(".") == hatched[0]
    assert old[2].rindex(".") == hatched[1]
    assert set(old[2]) == set(" #.]")
    assert "n >= 40 and n < 70" in out
    assert out.partition("seq  op")[0].isascii()


def test_a_root_url_takes_the_column_of_the_table_s_own_order(
    firnline: Firnline, root: str
) -> None:
    assert firnline("timeline", root, "--ascii").out.startswith("events: n from 0 to 100")
    columns = firnline("schema", "show", root, "--json").data["columns"]
    assert columns == [{"column": "n", "type": "BIGINT", "used_for": ["sort"]}]


def test_on_a_terminal_of_unicode_it_is_drawn_with_blocks(firnline: Firnline, root: str) -> None:
    out = firnline("timeline", root, "--column", "n").out
    assert {"█", "▌", "░", "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"} <= set(out)
    picture = out.split("\n\n")[1].splitlines()
    assert max(map(len, picture)) <= 100
    assert "visible rows" in picture[-1]


def test_the_data_has_layers_from_the_newest_down(firnline: Firnline, root: str) -> None:
    data = firnline("timeline", root, "--column", "n", "--json").data
    assert [(y["newest"], y["parts"], len(y["records"])) for y in data["layers"]] == [
        (1, 1, 0),
        (1, 0, 1),
        (0, 2, 0),
    ]
    assert data["layers"][1]["records"][0]["op"] == "replace"
    assert (data["start"], data["end"], len(data["visible"])) == ("0", "100", data["cells"])
    shown = firnline("timeline", root, "--column", "n", "--start", "0", "--end", "20", "--json")
    assert shown.data["outside"] == 2


def test_what_cannot_be_drawn_is_said(firnline: Firnline, root: str, tmp_path: Path) -> None:
    plain, rows = f"file://{tmp_path}/plain", tmp_path / "rows.parquet"
    assert firnline("append", plain, rows).code == 0
    assert firnline("timeline", plain).sentence == (
        "neither plain nor its settings name a column of times; name it with --column"
    )
    assert "no column 'x'" in firnline("timeline", root, "--column", "x").sentence
    gone = firnline("drop", root, "--yes", "-")
    assert gone.code == 0, gone.err
    assert "no live part to draw" in firnline("timeline", root, "--column", "n").sentence


@pytest.mark.parametrize(
    ("kind", "low", "high", "texts"),
    [
        ("BIGINT", 0, 100, ["0", "20", "40", "60", "80", "100"]),
        ("DOUBLE", -0.5, 0.7, ["-0.4", "-0.2", "0", "0.2", "0.4", "0.6"]),
        ("BIGINT", 7, 7, ["7"]),
        ("DATE", 0, 4 * DAY, ["1970-01-01", "01-02", "01-03", "01-04", "01-05"]),
        (
            "TIMESTAMP",
            DAY - 1,
            2 * DAY,
            ["01-02 00:00", "06:00", "12:00", "18:00", "01-03 00:00"],
        ),
        ("TIMESTAMP", 0, 60 * DAY, ["1970-01-01", "01-15", "01-29"]),
        ("TIMESTAMP", 0, 300 * DAY, ["1970-01", "1970-04", "1970-07", "1970-10"]),
        ("TIMESTAMP", 0, 4000 * DAY, ["1970", "1972", "1974", "1976", "1978", "1980"]),
        ("TIMESTAMP", 0, 4_000_000_000, ["00:00:00", "00:00:01", "00:00:02", "00:00:03"]),
    ],
)
def test_a_scale_has_round_marks(kind: str, low: int, high: int, texts: list[str]) -> None:
    found = marks(Axis("c", kind, low, high, 80))
    assert [text.strip() for _, text in found][: len(texts)] == texts
    assert len(found) <= 80 // 13 + 1
