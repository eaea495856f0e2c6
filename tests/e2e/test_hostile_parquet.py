"""Parquet files that are cut, lie, or are none: named in one error, the table as it was.

Bytes of a page that changed without a trace are not noticed, since Parquet has no checksum that its
writers use: what is promised of such a file is an error of ours or as many rows as its footer says.
"""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.delete.run import run_delete
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, RewriteOptions, VerifyOptions
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.verify.run import run_verify
from tests.support.hostile import reading, refusal
from tests.support.log_tables import snapshot
from tests.support.reading import visible_rows
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
KINDS = pa.schema([("d", pa.int64()), ("id", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"d": [1] * 3, "id": [11, 12, 13], "v": ["canary-a", "b", "c"]}, schema=KINDS)
CUTS = 30


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


GOOD = parquet(ROWS)
FOOTER = len(GOOD) - 8 - int.from_bytes(GOOD[-8:-4], "little")


def length(number: int) -> bytes:
    """The file with another length of its footer."""
    return GOOD[:-8] + (number % 2**32).to_bytes(4, "little") + GOOD[-4:]


def named(*names: str) -> bytes:
    return parquet(pa.table([pa.array([1, 2, 3])] * len(names), names=list(names)))


UNREADABLE: dict[str, bytes] = {
    **{f"cut {n}": GOOD[: n * (len(GOOD) - 1) // (CUTS - 1)] for n in range(CUTS)},
    **{f"begun {n}": GOOD[n * len(GOOD) // 4 :] for n in (3,)},
    "text": b"id,v\n1,a\n" * 50,
    "nothing": b"",
    "encrypted": b"PARE" + GOOD[4:-4] + b"PARE",
    "encrypted footer": GOOD[:-4] + b"PARE",
    "length 0": length(0),
    "length 1": length(1),
    "length one less": length(len(GOOD) - 8 - FOOTER - 1),
    "length half": length((len(GOOD) - 8 - FOOTER) // 2),
    "length whole file": length(len(GOOD)),
    "length 4 GiB": length(-1),
    "zeros": bytes(len(GOOD)),
    "footer of zeros": GOOD[:FOOTER] + bytes(len(GOOD) - FOOTER - 8) + GOOD[-8:],
}
UNFIT: dict[str, bytes] = {
    "other types": parquet(pa.table({"d": [1], "id": ["x"], "v": ["a"]})),
    # A narrower one fits: it is cast, and loses nothing.
    "an unsigned type": parquet(pa.table({"d": [1], "id": pa.array([1], pa.uint64()), "v": ["a"]})),
    "nested": parquet(pa.table({"d": [1], "id": [{"id": 1}], "v": ["a"]})),
    "one name twice": named("d", "id", "id"),
    "two names in one case": named("d", "id", "ID"),
}
IN_PLACE = {**UNREADABLE, **UNFIT}
REFUSED = list(IN_PLACE)
NO_COLUMNS = parquet(pa.table({"d": [1, 2, 3]}).select([]))
SOME_CUTS = [f"cut {n}" for n in range(0, CUTS, 4)]
FEW = ["cut 20", "text", "encrypted", "length half", "other types", "one name twice"]


def filled(**settings: Any) -> World:
    """Two parts in each of d=1 and d=2."""
    world = make_world(**{"partition_by": ["d"], "merge": {"min_inputs": 2}, **settings})
    appender = Appender(world.table)
    for first in (0, 3):
        world.clock.advance(10)
        ids = [first, first + 1, first + 2]
        for d in (1, 2):
            appender.append(pa.table({"d": [d] * 3, "id": ids, "v": ["a", "b", "c"]}, schema=KINDS))
    return world


def adopt(world: World, data: bytes, **more: Any) -> str:
    """A part of d=1 as another client may name it, without looking into it. Returns its key."""
    world.clock.advance(10)
    t = world.clock.now
    key = world.table.paths.data_part("d=1", world.ids.uuid7(t))
    world.store.objects[key] = (data, t)
    marker = json.dumps({"p": key, "b": len(data), "t": t, **more})
    text = f'{{"v":1,"t":{t},"sch":1,"f":2}}\n{{"id":"BIGINT"}}\n{marker}'
    world.store.objects[f"t/_log/{t}_other.jsonl"] = (text.encode(), t)
    return key


def engine(world: World, folder: Path) -> Callable[[], LocalEngine]:
    return lambda: LocalEngine(lambda: world.store, folder, world.ids, SystemClock())


def keys_of(world: World, partition: str) -> set[str]:
    """Live parts."""
    return {m.p for m in snapshot(world).partitions[partition]}


def operations(world: World, folder: Path) -> dict[str, Callable[[], object]]:
    make, table = engine(world, folder), world.table
    rewrite = RewriteOptions(where="id != 1 and id != 12", force=True)
    delete = DeleteOptions(where="id = 1 or id = 12", mode="eager")
    return {
        "merge": lambda: run_merge(Work(table, RUN, make), MergeOptions()),
        "rewrite": lambda: run_rewrite(Work(table, RUN, make), rewrite),
        "query": lambda: run_rewrite(Work(table, RUN, make), RewriteOptions(sql="from _rows")),
        "delete": lambda: run_delete(Work(table, RUN, make), delete),
    }


@pytest.mark.parametrize("kind", REFUSED)
def test_an_append_of_such_a_file_is_refused_by_name_and_brings_nothing(
    tmp_path: Path, kind: str
) -> None:
    world = filled()
    good, bad = tmp_path / "good.parquet", tmp_path / "bad.parquet"
    good.write_bytes(GOOD)
    bad.write_bytes(IN_PLACE[kind])
    before = dict(world.store.objects)
    refusal("bad.parquet", Appender(world.table).append_files, [good, bad])
    assert world.store.objects == before


@pytest.mark.parametrize("kind", REFUSED)
def test_an_import_of_such_a_file_is_refused_by_name_and_brings_nothing(kind: str) -> None:
    world = filled()
    world.store.objects["in/d=1/good.parquet"] = (GOOD, 1)
    world.store.objects["in/d=1/bad.parquet"] = (IN_PLACE[kind], 1)
    before = dict(world.store.objects)
    options = ImportOptions(source="memory://bucket/in")
    refusal("in/d=1/bad.parquet", run_import, Work(world.table), options)
    assert world.store.objects == before


@pytest.mark.parametrize("kind", [k for k in IN_PLACE if not k.startswith("cut")] + SOME_CUTS)
def test_a_merge_names_such_a_part_leaves_its_group_and_merges_the_others(
    tmp_path: Path, kind: str
) -> None:
    world = filled()
    key = adopt(world, IN_PLACE[kind])
    before = keys_of(world, "d=1")
    refusal(key, operations(world, tmp_path)["merge"])
    state = snapshot(world)
    assert keys_of(world, "d=1") == before
    assert [m.n for m in state.partitions["d=2"]] == [6]
    assert not {k for k in world.store.objects if "/_data/" in k} - set(state.parts), "no orphan"
    kinds = run_verify(Work(world.table), VerifyOptions(deep=True)).kinds
    assert {k for k in kinds if k.startswith("footer")}, kinds


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("operation", ["rewrite", "query", "delete"])
def test_no_other_operation_loses_a_row_of_such_a_partition(
    tmp_path: Path, operation: str, kind: str
) -> None:
    world = filled()
    key = adopt(world, IN_PLACE[kind])
    before = keys_of(world, "d=1")
    refusal(key, operations(world, tmp_path)[operation])
    assert keys_of(world, "d=1") == before
    assert not {k for k in world.store.objects if "/_data/" in k} - set(snapshot(world).parts)


def test_a_part_without_rows_is_merged_away(tmp_path: Path) -> None:
    world = filled()
    adopt(world, parquet(ROWS.slice(0, 0)))
    run_merge(Work(world.table, RUN, engine(world, tmp_path)), MergeOptions())
    assert [m.n for m in snapshot(world).partitions["d=1"]] == [6]


@pytest.mark.parametrize("data", [parquet(ROWS.slice(0, 0)), NO_COLUMNS], ids=["rows", "columns"])
def test_a_file_without_rows_or_columns_appends_and_imports_nothing(
    tmp_path: Path, data: bytes
) -> None:
    world = filled()
    (tmp_path / "empty.parquet").write_bytes(data)
    world.store.objects["in/d=1/empty.parquet"] = (data, 1)
    before = dict(world.store.objects)
    reading("", Appender(world.table).append_files, [tmp_path / "empty.parquet"])
    reading("", run_import, Work(world.table), ImportOptions(source="memory://bucket/in"))
    assert {k for k in world.store.objects if "/_data/" in k} == {
        k for k in before if "/_data/" in k
    }


def test_a_part_without_columns_is_named_and_left(tmp_path: Path) -> None:
    world = filled()
    key = adopt(world, NO_COLUMNS)
    before = keys_of(world, "d=1")
    refusal(key, operations(world, tmp_path)["merge"])
    assert keys_of(world, "d=1") == before


def test_a_file_with_any_byte_changed_is_refused_by_name_or_has_the_rows_it_states(
    tmp_path: Path,
) -> None:
    """The path of an append, which ends in rows and not in a copy of the file."""
    from firnline.rows.source import check_files, read_files
    from firnline.types.schema import SchemaUnion

    path = tmp_path / "hit.parquet"
    for at in [*range(0, FOOTER, 5), *range(FOOTER, len(GOOD))]:
        path.write_bytes(GOOD[:at] + bytes([GOOD[at] ^ 1 << at % 8]) + GOOD[at + 1 :])
        stated = reading("hit.parquet", check_files, [path], SchemaUnion())
        rows = reading("hit.parquet", lambda: sum(b.num_rows for b in read_files([path])))
        assert stated is None or rows is None or rows == stated.rows


def test_a_file_of_keys_with_any_byte_of_its_footer_changed_is_refused_by_name_or_read(
    tmp_path: Path,
) -> None:
    from firnline.operations.erase.key_files import _parquet

    path = tmp_path / "hit.parquet"
    for at in range(FOOTER, len(GOOD)):
        path.write_bytes(GOOD[:at] + bytes([GOOD[at] ^ 1 << at % 8]) + GOOD[at + 1 :])
        reading("keys.parquet", lambda: sum(1 for _ in _parquet(path, "keys.parquet", ("id",))))


def lying() -> bytes:
    """Rows 11, 12, 13 in a file whose footer says that they lie between 511 and 513."""
    footer = GOOD[FOOTER:]
    for value in (11, 13):
        assert struct.pack("<q", value) in footer
        footer = footer.replace(struct.pack("<q", value), struct.pack("<q", value + 500))
    return GOOD[:FOOTER] + footer


def rows_of(world: World) -> Counter[Any]:
    return Counter(row["id"] for row in visible_rows(world.table))


def test_statistics_that_lie_never_cost_a_row(tmp_path: Path) -> None:
    """They may hide a row from the condition that asks for it; nothing else is promised."""
    data = lying()
    assert pq.read_table(io.BytesIO(data))["id"].to_pylist() == [11, 12, 13]
    statistics = pq.read_metadata(io.BytesIO(data)).row_group(0).column(1).statistics
    assert (statistics.min, statistics.max) == (511, 513)
    for operation in ("merge", "rewrite", "query", "delete"):
        world = filled()
        adopt(world, data)
        before = rows_of(world)
        reading("", operations(world, tmp_path / operation)[operation])
        lost = before - rows_of(world)
        allowed = Counter() if operation in ("merge", "query") else Counter({1: 2, 12: 1})
        assert lost <= allowed, operation
        assert not rows_of(world) - before, operation


def test_an_append_does_not_believe_statistics(tmp_path: Path) -> None:
    world = filled()
    (tmp_path / "lying.parquet").write_bytes(lying())
    Appender(world.table).append_files([tmp_path / "lying.parquet"])
    newest = max(snapshot(world).live.values(), key=lambda m: m.t)
    assert newest.stats().get("id", (11, 13, 0)) == (11, 13, 0)
    assert rows_of(world)[12] == 1


def test_no_message_tells_what_stands_in_a_row(tmp_path: Path) -> None:
    world = filled()
    adopt(world, IN_PLACE["cut 20"])
    for run in operations(world, tmp_path).values():
        with pytest.raises(FirnlineError) as caught:
            run()
        assert "canary" not in str(caught.value)
