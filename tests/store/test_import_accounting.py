"""What imports cost on a real store: of a folder, and again and again of one that others write."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import firnline
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, MergeOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.store.probe import forget
from firnline.table import Table
from tests.store.test_cleanup_accounting import DAY
from tests.store.test_merge_accounting import opened
from tests.support.world import SetClock
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
ROWS = 3
"""Rows of a file."""
LOG_FILES = 3
"""Log files that wait to be folded, at most."""


class Folder:
    """A folder beside a table, and what is done to it."""

    def __init__(self, root: StoreRoot, scratch: Path) -> None:
        self.root, self.scratch = root, scratch
        self.rows = 0
        self.clock = SetClock(now=SystemClock().now_ms())

    @property
    def above(self) -> int:
        """LIST that look whether a folder above is a table of another format: 4 for each."""
        return 4 * self.table().paths.prefix.count("/")

    def table(self) -> Table:
        return replace(opened(self.root, merge={"min_inputs": 2}), clock=self.clock)

    def engine(self) -> LocalEngine:
        return LocalEngine(
            lambda: self.table().store, self.scratch, SystemIds(), SystemClock(), parallel=2
        )

    def put(self, name: str, id_type: pa.DataType, day: int | None) -> None:
        """A file with the next ids; without ``day`` its folder alone states it."""
        ids = range(self.rows, self.rows + ROWS)
        columns: dict[str, Any] = {"id": pa.array(ids, id_type)}
        if day is not None:
            columns["day"] = pa.array([day] * ROWS, pa.int64())
        path, table = self.scratch / "file.parquet", self.table()
        pq.write_table(pa.table(columns), path)
        table.store.put_file(f"{table.paths.prefix.removesuffix('t')}in/{name}", path)
        self.rows += ROWS

    def take(self, **options: Any) -> ImportReport:
        given = ImportOptions(source=f"{self.root.url}/in", **options)
        return run_import(Work(self.table(), engine=self.engine), given)

    def holds_every_row_once(self) -> None:
        rows = firnline.scan(self.table()).to_arrow()
        assert Counter(rows["id"].to_pylist()) == Counter(range(self.rows))
        assert rows["day"].null_count == 0
        found = run_verify(Work(self.table()), VerifyOptions(deep=True, rows=True)).findings
        assert [each for each in found if each.severity != "note"] == []


def spent(report: ImportReport) -> dict[str, int]:
    return {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}


def test_copies_files_anew_and_columns_of_paths_in_one_import(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    folder = Folder(store_root, tmp_path)
    for number in range(7):
        folder.put(f"as-they-are/{number}.parquet", pa.int64(), 5)
    for number in range(4):
        folder.put(f"narrow/{number}.parquet", pa.int16(), 6)
    for number in range(3):
        folder.put(f"day={number}/x.parquet", pa.int64(), None)
    report = folder.take()
    plan: Any = report.plan
    assert (plan["copies"], plan["anew"]["files"]) == (7, 4 + 3)
    # Narrow ones in one part of one folder, and a part for each day.
    assert report.parts_written == 1 + 3
    # The footers, and the files that are read; the birth record, the list of files, its claim, the
    # log file, and that it is visible. The folder is listed twice, and once where the lists are.
    assert spent(report) == {"get": 14 + 7, "put": 7 + 4 + 5, "list": 6 + folder.above}
    folder.holds_every_row_once()


def test_new_files_cost_what_they_are_however_often_they_are_taken(
    store_root: StoreRoot, tmp_path: Path
) -> None:
    folder = Folder(store_root, tmp_path)
    for day in range(10):
        for number in range(4):
            folder.put(f"f/{day}-{number}.parquet", pa.int64(), day)
        folder.put(f"day={day}/x.parquet", pa.int64(), None)
        report = folder.take(new=True)
        plan: Any = report.plan
        assert (plan["copies"], plan["anew"]["files"], plan["known"]) == (4, 1, 5 * day)
        # Footers and the file that is read, and log files until they are folded; copies, a part and
        # what an import writes.
        known = 0 if day == 0 else 1 + LOG_FILES
        assert report.requests["get"] <= 5 + 1 + known
        assert report.requests["put"] == 4 + 1 + 4 + (day == 0)
        # Log and history, the folder twice; once more where lists are, and for the birth record.
        assert report.requests["list"] == 4 + folder.above + 2 * (day == 0)
        nothing = folder.take(new=True)
        assert nothing.log_file is None
        assert nothing.requests["get"] <= 2 + LOG_FILES
        assert nothing.requests["put"] == 0
        assert nothing.requests["list"] == 3 + folder.above
        if day % 3 == 2:
            run_merge(Work(folder.table(), RUN, folder.engine), MergeOptions(full=True))
            folder.clock.advance(2 * DAY)
            forget()
            assert run_cleanup(Work(folder.table(), RUN), CleanupOptions()).parts
            folder.holds_every_row_once()
    folder.holds_every_row_once()
