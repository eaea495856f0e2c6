"""A process that ends in the middle of a read says nothing of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.programs import run_program

PROGRAM = """
import sys
import firnline

rows = firnline.scan(sys.argv[1]).arrow_reader()
{then}
"""


@pytest.mark.parametrize(
    "then", ["rows.read_next_batch()", "", "raise SystemExit(rows.read_next_batch().num_rows)"]
)
def test_a_reader_that_is_not_read_to_its_end_holds_nothing_at_exit(
    tmp_path: Path, then: str
) -> None:
    table = open_table(settings_for_root(f"file://{tmp_path}/t"))
    Appender(table).append(pa.table({"a": [1, 2, 3]}))
    program = PROGRAM.format(then=then)
    done = run_program([sys.executable, "-c", program, table.settings.root])
    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode == (3 if "SystemExit" in then else 0)
