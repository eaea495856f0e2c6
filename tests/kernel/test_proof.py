"""What a kernel writes is proven before it is uploaded: no planted fault passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from firnline.errors import PartUnreadableError
from firnline.kernel.outputs import Producer
from firnline.kernel.proof import Proof
from firnline.kernel.task import (
    Cluster,
    Conversion,
    KernelInput,
    KernelTask,
    KeyRange,
    Layout,
    Level,
    Slice,
    Source,
)
from firnline.parquet.digests import digest_file
from firnline.types.digests import Digest, parse_digest
from firnline.types.rowhash import digest_of
from tests.kernel.conftest import PREFIX, Group

COLUMNS = {"k": "BIGINT", "a": "DOUBLE", "b": "DOUBLE", "t": "VARCHAR", "d": "VARCHAR"}


def rows(first: int, count: int = 40) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "a": [0.0 if n % 3 else n / 7 for n in numbers],
            "b": [None if n % 5 == 0 else n * 1.5 for n in numbers],
            "t": [None if n % 4 == 0 else f"text {n % 6}" for n in numbers],
            "d": [f"p{n % 2}" for n in numbers],
        }
    )


def changed(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values, table[column].type))


def doubled(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, 1), table.slice(0, table.num_rows - 1)])


def columns_swapped(table: pa.Table) -> pa.Table:
    return table.set_column(1, "a", table["b"]).set_column(2, "b", table["a"])


def values_exchanged(table: pa.Table) -> pa.Table:
    """Two rows have each other's value in one column."""
    one, other = table["k"][1].as_py(), table["k"][2].as_py()
    return changed(changed(table, "k", 1, other), "k", 2, one)


def sign_of_zero(table: pa.Table) -> pa.Table:
    row = table["a"].to_pylist().index(0.0)
    return changed(table, "a", row, -0.0)


FAULTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a value changed": lambda t: changed(t, "k", 3, 10**9),
    "a row doubled and another lost": doubled,
    "a null filled": lambda t: changed(t, "t", t["t"].to_pylist().index(None), ""),
    "a value lost": lambda t: changed(t, "t", t["t"].to_pylist().index("text 1"), None),
    "the sign of a zero": sign_of_zero,
    "two columns swapped": columns_swapped,
    "values of two rows exchanged": values_exchanged,
}
LAYOUT = Layout(
    prefix="table", levels=(Level(column="d", transform="identity", label="d", text="d"),)
)


def slice_of(low: str | None, high: str | None) -> Slice:
    return Slice(ranges=(KeyRange(column="k", low=low, high=high),))


WAYS: dict[str, dict[str, Any]] = {
    "unsorted": {},
    "sorted": {"sort": ["t", "k"]},
    "clustered by range": {"cluster": Cluster(method="range", columns=("k",), outputs=2)},
    "clustered by hash": {"cluster": Cluster(method="hash", columns=("k",), outputs=2)},
    "z-ordered": {"cluster": Cluster(method="zorder", columns=("k", "a"), outputs=2)},
    "with a key": {"primary_key": ("k",)},
    "with deletes": {"hidden": {f"{PREFIX}in-0.parquet": "k < 5"}},
    "with a filter": {"keep": "k % 10 <> 3"},
    "by partition": {"layout": LAYOUT},
    "by a query": {"query": "SELECT k * 2 AS k, a, b, t, d FROM _rows"},
    "a slice": {"slice": slice_of("10", None)},
}


def stated(group: Group, task: KernelTask) -> KernelTask:
    """The task with the digests of its inputs, as markers state them."""

    def one(source: KernelInput) -> KernelInput:
        found = digest_file(group.root / source.key)
        assert found is not None
        return structs.replace(source, digest=str(found[0]))

    return structs.replace(task, inputs=tuple(map(one, task.inputs)))


def planted(monkeypatch: pytest.MonkeyPatch, fault: Callable[[pa.Table], pa.Table]) -> None:
    """Let kernels write wrong rows, as many as the right ones, into the first output."""
    real = Producer._finished
    done: list[Path] = []

    def finished(producer: Producer, path: Path, *rest: Any) -> Any:
        if not done:
            with pq.ParquetFile(path) as file:
                table, pairs = file.read(), file.schema_arrow.metadata
            wrong = fault(table)
            assert wrong.num_rows == table.num_rows
            pq.write_table(wrong.replace_schema_metadata(pairs), path)
            done.append(path)
        return real(producer, path, *rest)

    monkeypatch.setattr(Producer, "_finished", finished)


def objects(group: Group) -> list[Path]:
    return sorted(path for path in group.root.rglob("*") if path.is_file())


def test_a_group_of_a_table_without_partitions_is_named_in_words(group: Group) -> None:
    task = group.task([], COLUMNS)
    assert structs.replace(task, group=1, partition="").name == "group 1 (the whole table)"
    assert structs.replace(task, group=1, partition="d=1").name == "group 1 (partition 'd=1')"


def refused(group: Group, task: KernelTask) -> str:
    before = objects(group)
    result = group.run(task)
    assert result.error_type == "RowsDifferError", result.error
    assert "group 7 (partition 'd=1') failed its proof" in str(result.error)
    assert objects(group) == before, "nothing is uploaded"
    return str(result.error)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found_before_anything_is_uploaded(
    group: Group, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    task = group.task(group.put(rows(0), rows(40)), COLUMNS, sort=["k"])
    planted(monkeypatch, FAULTS[fault])
    refused(group, task)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "a slice"])
def test_a_fault_is_found_in_whatever_way_rows_are_written(
    group: Group, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    task = group.task(group.put(rows(0), rows(30)), COLUMNS, **WAYS[way])
    planted(monkeypatch, FAULTS["a null filled"])
    refused(group, stated(group, task))


@pytest.mark.parametrize("says", ["stated", "computed"])
@pytest.mark.parametrize("way", WAYS)
def test_right_rows_pass_their_proof(group: Group, way: str, says: str) -> None:
    task = group.task(group.put(rows(0), rows(30)), COLUMNS, **WAYS[way])
    result = group.run(stated(group, task) if says == "stated" else task)
    assert result.error is None, result.error
    for part in result.parts:
        found = digest_file(group.root / part.key)
        assert found is not None
        assert part.digest == str(found[0])
        pairs = pq.read_metadata(group.root / part.key).metadata
        assert pairs[b"firnline.digest"].decode() == part.digest


def test_a_group_that_is_only_counted_is_as_quick_to_err_as_before(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = group.task(group.put(rows(0), rows(40)), COLUMNS, proof="counts")
    planted(monkeypatch, FAULTS["a null filled"])
    assert group.run(task).error is None


def test_a_group_that_is_only_counted_states_the_sum_of_what_its_inputs_state(group: Group) -> None:
    task = stated(group, group.task(group.put(rows(0), rows(40)), COLUMNS, proof="counts"))
    (part,) = group.run(task).parts
    found = digest_file(group.root / part.key)
    assert found is not None
    assert part.digest == str(found[0])
    some = structs.replace(task, keep="k > 3")
    assert [part.digest for part in group.run(some).parts] == [None], "rows have gone"


def test_an_input_whose_rows_are_not_those_of_its_marker_is_named(group: Group) -> None:
    keys = group.put(rows(0), rows(40))
    task = stated(group, group.task(keys, COLUMNS))
    pq.write_table(FAULTS["a value changed"](rows(40)), group.root / keys[1])
    assert f"the rows of {keys[1]} are not those" in refused(group, task)


def test_an_input_that_arrow_does_not_read_is_named_by_its_key(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = group.put(rows(0), rows(40))
    task = stated(group, group.task(keys, COLUMNS))
    real = Proof._file

    def torn(self: Proof, path: Path, *given: Any, **named: Any) -> Any:
        if path.name == "000001.parquet":
            raise PartUnreadableError(f"{path} cannot be read", next_step="get it again")
        return real(self, path, *given, **named)

    planted(monkeypatch, FAULTS["a value changed"])
    monkeypatch.setattr(Proof, "_file", torn)
    assert f"the rows of {keys[1]} are not those" in refused(group, task)


def test_an_input_that_arrow_takes_for_a_type_without_digests_is_proven_too(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = pa.array([1, None, 3], pa.decimal256(20, 2))
    task = group.task(
        group.put(pa.table({"k": [1, 2, 3], "a": wide})),
        {"k": "BIGINT", "a": "DECIMAL(20,2)"},
        sort=["k"],
    )
    assert group.run(task).error is None
    planted(monkeypatch, lambda rows: changed(rows, "a", 1, Decimal(2)))
    refused(group, task)


def test_a_digest_of_another_algorithm_is_computed_anew(group: Group) -> None:
    task = group.task(group.put(rows(0), rows(40)), COLUMNS)
    inputs = tuple(structs.replace(each, digest="r0:" + "0" * 32) for each in task.inputs)
    assert group.run(structs.replace(task, inputs=inputs)).error is None


def test_slices_of_a_group_add_up_to_what_its_inputs_state(group: Group) -> None:
    task = stated(group, group.task(group.put(rows(0), rows(30)), COLUMNS, sort=["k"]))
    ends = [(None, "17"), ("17", "50"), ("50", None)]
    found = Digest()
    for low, high in ends:
        result = group.run(structs.replace(task, slice=slice_of(low, high)))
        digest = parse_digest(result.digest)
        assert digest is not None
        found = found.plus(digest)
    whole = Digest()
    for source in task.inputs:
        whole = whole.plus(parse_digest(source.digest) or Digest())
    assert found == whole


@pytest.mark.parametrize("ends", [("1000", None), (None, "5")])
def test_a_slice_of_which_no_row_stays_says_which_rows_have_gone(
    group: Group, ends: tuple[str | None, str | None]
) -> None:
    keys = group.put(rows(0))
    task = group.task(keys, COLUMNS, sort=["k"], hidden={keys[0]: "k < 5"})
    result = group.run(structs.replace(stated(group, task), slice=slice_of(*ends)))
    assert result.error is None
    gone = digest_of(rows(0).slice(0, result.rows_deleted))
    assert (result.parts, result.digest) == ((), str(gone))
    assert result.rows_in == result.rows_deleted == (5 if ends[1] else 0)


def test_renamed_widened_dropped_and_added_columns_raise_no_false_alarm(group: Group) -> None:
    old = pa.table({"a": pa.array([1, 2], pa.int32()), "gone": ["x", "y"], "name": ["m", None]})
    new = pa.table({"a": pa.array([3], pa.int64()), "title": ["n"], "more": [1.5]})
    keys = group.put(old, new)
    columns = {"a": "BIGINT", "title": "VARCHAR", "more": "DOUBLE"}
    task = stated(group, group.task(keys, columns, dropped=("gone",)))
    sources = (Source(column="title", names=("name",)),)
    inputs = (structs.replace(task.inputs[0], sources=sources), task.inputs[1])
    result = group.run(structs.replace(task, inputs=inputs))
    assert result.error is None, result.error
    assert group.read(result).sort_by("a").to_pylist() == [
        {"a": 1, "title": "m", "more": None},
        {"a": 2, "title": None, "more": None},
        {"a": 3, "title": "n", "more": 1.5},
    ]


def test_values_that_become_another_type_are_proven_in_that_type(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = group.put(pa.table({"a": ["1", "2", None]}))
    conversions = (Conversion(column="a", name="a"),)
    task = stated(group, group.task(keys, {"a": "BIGINT"}, conversions=conversions))
    assert group.run(task).error is None
    planted(monkeypatch, lambda t: changed(t, "a", 0, 7))
    refused(group, task)


def test_zeros_of_both_signs_and_nan_survive_a_merge(group: Group) -> None:
    values = [0.0, -0.0, math.nan, None, 1.0, -0.0, 0.0] * 20
    table = pa.table({"a": pa.array(values, pa.float64()), "f": pa.array(values, pa.float32())})
    for changes in ({}, {"sort": ["a"]}):
        assert (
            group.run(
                group.task(group.put(table, table), {"a": "DOUBLE", "f": "FLOAT"}, **changes)
            ).error
            is None
        )


def test_a_row_of_another_partition_in_an_output_is_found(group: Group, tmp_path: Path) -> None:
    task = group.task(group.put(rows(0)), COLUMNS, layout=LAYOUT)
    proof = Proof(task, tmp_path, lambda _path, _rows: 0, lambda: None)
    path = tmp_path / "output.parquet"
    pq.write_table(rows(0, 3), path)
    with pytest.raises(Exception, match="an output of partition 'd=p0' has rows of 'd=p1'"):
        proof.output(path, "d=p0")


@pytest.mark.parametrize("kind", ["HUGEINT", "STRUCT(a BIT)[]", "timetz", '"NULL"'])
def test_a_type_without_a_digest_leaves_a_group_to_its_counts(
    group: Group, tmp_path: Path, kind: str
) -> None:
    proof = Proof(group.task([], {"a": kind}), tmp_path, lambda _path, _rows: 0, lambda: None)
    assert not proof.task.has_digests
    assert proof.output(tmp_path / "output.parquet", None) is None
    assert proof.end() is None


def test_columns_and_fields_named_like_types_do_not_matter(group: Group) -> None:
    fields = """STRUCT(VARIANT VARCHAR, "BIT" ENUM('INTERVAL'))"""
    task = group.task([], {"interval": "TIMESTAMP WITH TIME ZONE", "bit": "VARCHAR", "sku": fields})
    assert task.has_digests
