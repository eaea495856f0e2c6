"""Tasks that take new rows in: files of anybody's become sorted parts of their partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.clock import SystemClock
from firnline.errors import StoreUnavailableError
from firnline.ids import SystemIds
from firnline.kernel.merge import merge_group
from firnline.kernel.task import Intake, KernelInput, KernelResult, KernelTask, Level, Limits
from firnline.parquet.part import PartMetadata, read_pairs
from firnline.store.base import Store
from firnline.store.client import open_store
from firnline.types.order import SortKey

DAY = datetime.fromisoformat("2026-01-01")
BY_DAY = Level(column="ts", transform="day", label="ts_day", text="day(ts)")
LIMITS = Limits(
    columns=("ts",),
    condition="ts >= TIMESTAMP '2026-01-01' AND ts < TIMESTAMP '2026-01-03'",
    text="ts in two days",
)
COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP"}


def rows(ids: Any, **more: Any) -> pa.Table:
    wanted = list(ids)
    columns = {"id": wanted, "ts": [DAY + timedelta(hours=hour) for hour in wanted], **more}
    return pa.table(columns)


@dataclass
class Staged:
    """Files with new rows in a bucket on this disk."""

    root: Path
    scratch: Path

    @property
    def store(self) -> Store:
        return open_store(f"file://{self.root}/table")

    def put(self, *tables: pa.Table) -> list[str]:
        folder = self.root / "staged"
        folder.mkdir(parents=True, exist_ok=True)
        for number, table in enumerate(tables):
            pq.write_table(table, folder / f"{number}.parquet")
        return [f"staged/{number}.parquet" for number in range(len(tables))]

    def task(self, keys: list[str], **changed: Any) -> KernelTask:
        intake = {
            "table": "t",
            "prefix": "table",
            "place": "s3://bucket/",
            "limits": LIMITS,
            "part_bytes": 2**30,
            "buffer_bytes": 2**28,
            **changed.pop("intake", {}),
        }
        metadata = PartMetadata(
            table="table", partition="", writer="replace", q=4, o=(7, 7), d=("x",)
        )
        values: dict[str, Any] = {
            "group": 3,
            "partition": "p",
            "inputs": tuple(KernelInput(key=key, bytes=1, rows=None) for key in keys),
            "columns": tuple(COLUMNS.items()),
            "sort_by": (SortKey("id", descending=True),),
            "stats_columns": ("id",),
            "metadata": metadata.to_pairs(),
            "data_prefix": "table/_data/",
            "memory": 2**28,
            "threads": 1,
            "row_group_rows": 2048,
            "compression_level": 3,
            "intake": Intake(**intake),
            **changed,
        }
        return KernelTask(**values)

    def run(
        self,
        task: KernelTask,
        store: Store | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> KernelResult:
        sent = msgspec.json.decode(msgspec.json.encode(task), type=KernelTask)
        found = merge_group(
            sent, store or self.store, self.scratch, SystemIds(), SystemClock(), should_stop
        )
        assert not list(self.scratch.glob("*")), "a kernel leaves nothing behind"
        return found

    @property
    def parts(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.root / "table/_data"))
            for path in (self.root / "table/_data").rglob("*.parquet")
        )


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(tmp_path / "store", tmp_path / "scratch")


def test_the_rows_of_all_files_become_one_sorted_part_of_each_partition(staged: Staged) -> None:
    keys = staged.put(rows([1, 30, 2]), rows([]), rows([31, 0], note=["a", None]))
    result = staged.run(staged.task(keys, intake={"partition_by": (BY_DAY,)}))
    assert result.error is None
    assert [part.partition for part in result.parts] == ["ts_day=2026-01-01", "ts_day=2026-01-02"]
    found = [pq.read_table(staged.root / part.key)["id"].to_pylist() for part in result.parts]
    assert found == [[2, 1, 0], [31, 30]]
    assert [part.stats["id"] for part in result.parts] == [(0, 2, 0), (30, 31, 0)]
    assert (result.group, result.rows_in, result.columns) == (3, 5, {**COLUMNS, "note": "VARCHAR"})
    assert (result.requests["get"], result.requests["put"]) == (3, 2)


def test_a_part_says_in_its_footer_whose_it_is(staged: Staged) -> None:
    (part,) = staged.run(staged.task(staged.put(rows([1, 2])))).parts
    assert part.key.startswith("table/_data/p/")
    said = read_pairs("x", pq.read_metadata(staged.root / part.key).metadata)
    assert said == PartMetadata(
        table="table",
        partition="p",
        writer="replace",
        q=4,
        o=(7, 7),
        rows=2,
        d=("x",),
        digest=str(part.digest),
    )


def test_of_several_rows_of_a_key_the_last_one_stays(staged: Staged) -> None:
    keys = staged.put(rows([1, 2], v=[1, 1]), rows([2], v=[2]))
    task = staged.task(keys, primary_key=("id",))
    (part,) = staged.run(task).parts
    assert pq.read_table(staged.root / part.key).select(["id", "v"]).to_pylist() == [
        {"id": 2, "v": 2},
        {"id": 1, "v": 1},
    ]


def test_a_task_reads_the_row_groups_that_it_is_given_and_rows_anywhere_without_limits(
    staged: Staged,
) -> None:
    (key,) = staged.put(rows([]))
    pq.write_table(rows(range(100)), staged.root / key, row_group_size=10)
    size = (staged.root / key).stat().st_size
    source = KernelInput(key=key, bytes=size, rows=30, row_groups=(4, 5, 6))
    task = staged.task([], inputs=(source,), intake={"limits": None})
    result = staged.run(task)
    assert (result.error, result.rows_in) == (None, 30)
    assert (result.parts[0].stats["id"], result.requests["get"]) == ((40, 69, 0), 2)
    again = staged.run(
        staged.task([], inputs=(msgspec.structs.replace(source, rows=31),), intake={"limits": None})
    )
    assert (again.error_type, again.parts) == ("PartUnreadableError", ())


def test_files_without_a_row_become_no_part(staged: Staged) -> None:
    result = staged.run(staged.task(staged.put(rows([]), rows([]))))
    assert (result.error, result.parts) == (None, ())


SMALL = {"part_bytes": 2**15, "buffer_bytes": 2**17}
"""Parts are small: some are uploaded before the last rows are read."""


@pytest.mark.parametrize(
    ("last", "kind", "said"),
    [
        (
            rows([90]),
            "UsageError",
            "do not lie in ts in two days; the first has ts = 2026-01-04 18:00",
        ),
        (pa.table({"id": [1]}), "UsageError", "the new rows have no column 'ts'"),
        (
            pa.table({"id": ["x"], "ts": [DAY]}),
            "SchemaConflictError",
            "column 'id' is BIGINT in the table but VARCHAR in file s3://bucket/staged/1.parquet",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_no_part_stays(
    last: pa.Table, kind: str, said: str, staged: Staged
) -> None:
    keys = staged.put(rows([1] * 5000), last)
    result = staged.run(staged.task(keys, intake=SMALL))
    assert (result.error_type, result.parts) == (kind, ())
    assert said in str(result.error)
    assert result.requests["put"] > 0
    assert staged.parts == []


def test_a_file_that_is_broken_or_gone_is_named_by_its_url(staged: Staged) -> None:
    keys = staged.put(rows([1]))
    gone = staged.run(staged.task([*keys, "staged/none.parquet"]))
    assert (gone.error_type, gone.error_next_step) == ("UsageError", "stage the rows again")
    assert str(gone.error).startswith("s3://bucket/staged/none.parquet was deleted")
    (staged.root / keys[0]).write_bytes(b"no Parquet")
    broken = staged.run(staged.task(keys))
    assert broken.error_type == "PartUnreadableError"
    assert str(broken.error).startswith("s3://bucket/staged/0.parquet is not a Parquet file")


def test_a_task_that_is_told_to_stop_leaves_no_part(staged: Staged) -> None:
    keys = staged.put(rows([1] * 70_000), rows([2] * 70_000))
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 2

    result = staged.run(staged.task(keys, intake=SMALL), should_stop=stop)
    assert (result.error_type, result.parts) == ("KernelError", ())
    assert result.requests["put"] > 0
    assert staged.parts == []


def test_parts_that_cannot_be_deleted_are_left_to_the_sweep(
    staged: Staged, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreUnavailableError("no answer", next_step="wait")

    store = staged.store
    monkeypatch.setattr(type(store), "delete_many", refuse)
    result = staged.run(staged.task(staged.put(rows([1] * 5000), rows([90])), intake=SMALL), store)
    assert result.error_type == "UsageError"
    assert "left to the orphan sweep" in caplog.text
