"""Whatever an import takes can be kept: read, streamed, merged, deleted from, checked, mirrored.

Random rows in files of all writers that there are, with any options. What the import gives is what
an append of the same file gives, and what its writer was given; nothing ends with an exception that
is not ours.
"""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import FirnlineError, MirrorRefusedError, PartSchemaError, SchemaConflictError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.publish import publish
from firnline.operations.delete.run import run_delete
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import DeleteOptions, MergeOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.read.scan import scan
from tests.support.anybody import (
    KEY,
    STRANGE,
    WRITERS,
    Writer,
    by_duckdb,
    plain,
    shifted,
    strange,
    tables,
)
from tests.support.effort import examples
from tests.support.log_tables import snapshot
from tests.support.world import World, make_world

RUN = RunIdentity(run_id="r")
OTHER = 100
"""First key of the second file."""
Values = dict[str, list[Any]]
"""Column -> values, in the order of the keys."""


def values(rows: pa.Table) -> Values:
    keys = rows[KEY].to_pylist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    found = {name: plain(rows[name]) for name in rows.column_names}
    return {name: [column[n] for n in order] for name, column in found.items()}


def same(one: Values, other: Values) -> None:
    """Equal; a column that one of them does not have is null in all rows."""
    nulls = [None] * len(one[KEY])
    assert one[KEY] == other[KEY]
    for name in {**one, **other}:
        assert one.get(name, nulls) == other.get(name, nulls), name


def chosen(found: Values, which: Callable[[int], bool]) -> Values:
    rows = [n for n, key in enumerate(found[KEY]) if which(key)]
    return {name: [column[n] for n in rows] for name, column in found.items()}


def said(error: FirnlineError, *words: str) -> None:
    """It is one sentence, or one for each file, that matches these patterns."""
    assert "\n" not in error.message or "cannot be taken:" in error.message
    assert [each for each in words if not re.search(each, error.message)] == []


def together(each: Sequence[Values]) -> Values:
    names = dict.fromkeys(name for one in each for name in one)
    return {
        name: [v for one in each for v in one.get(name, [None] * len(one[KEY]))] for name in names
    }


@dataclass
class Taken:
    """A table that files are imported into."""

    scratch: Path
    world: World = field(default_factory=lambda: make_world(mirror=["delta"]))

    def take(self, files: dict[str, Path], **options: Any) -> ImportReport:
        for name, path in files.items():
            self.world.store.objects[f"lake/in/{name}"] = path.read_bytes(), self.world.clock.now
        self.world.clock.advance(10)
        given = ImportOptions(source="memory://bucket/lake/in", **options)
        return run_import(Work(self.world.table, engine=self.engine), given)

    def engine(self) -> LocalEngine:
        world = self.world
        return LocalEngine(lambda: world.store, self.scratch, world.ids, SystemClock(), 1)

    def can_be_kept(self, expected: Values | None) -> None:
        """It holds these rows, whatever happens to it; None: as many as it has at first."""
        expected = self.reads(expected)
        self.can_be_mirrored()
        if not expected[KEY]:
            return
        self.world.clock.advance(10)
        run_merge(Work(self.world.table, RUN, self.engine), MergeOptions(full=True))
        live = snapshot(self.world)
        assert len(live.live) == len(live.partitions), "each is one part now"
        self.reads(expected)
        for below in (1, 2):
            self.world.clock.advance(10)
            mode: Literal["lazy", "eager"] = "lazy" if below == 1 else "eager"
            given = DeleteOptions(where=f"{KEY} < {below}", mode=mode)
            run_delete(Work(self.world.table, RUN, self.engine), given)
            expected = chosen(expected, below.__le__)
            self.reads(expected)

    def reads(self, expected: Values | None) -> Values:
        """Return what every reader says; nothing is found by a check."""
        table = self.world.table
        found = values(scan(table).to_arrow())
        if expected is not None:
            same(found, expected)
        assert values(scan(table).duckdb().to_arrow_table()) == found
        half = scan(table, where=f"{KEY} >= 3 AND {KEY} < {OTHER + 3}").to_arrow()
        assert values(half) == chosen(found, lambda key: 3 <= key < OTHER + 3)
        for name in list(found)[1:]:
            quoted = '"' + name.replace('"', '""') + '"'
            nulls = scan(table, where=f"{quoted} IS NULL").to_arrow()[KEY].to_pylist()
            pairs = zip(found[KEY], found[name], strict=True)
            assert sorted(nulls) == [key for key, value in pairs if value is None]
        report = run_verify(Work(table), VerifyOptions(deep=True, rows=True))
        # A note tells of rows that wait for a merge.
        wrong = [f for f in report.findings if "mirror" not in f.kind and f.severity != "note"]
        assert not wrong, wrong
        return found

    def can_be_mirrored(self) -> None:
        """Or the mirror refuses it in one sentence that names the column."""
        try:
            publish(self.world.table)
        except MirrorRefusedError as error:
            said(error, "column ")


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as found:
        (Path(found) / "scratch").mkdir()
        yield Path(found)


def appended(path: Path) -> World | None:
    """A table with the rows of one file; None if an append refuses it."""
    world = make_world()
    try:
        Appender(world.table).append_files([path])
    except FirnlineError:
        return None
    return world


def played(rows: pa.Table, one: Writer, other: Writer, at: Path) -> None:
    """A folder with two files, of which the second has other keys."""
    given, paths = [rows, shifted(rows, OTHER)], [at / "0.parquet", at / "1.parquet"]
    for writer, each, path in zip((one, other), given, paths, strict=True):
        assume(writer.written(each, path))
    alone = [appended(path) for path in paths]
    taken = Taken(at / "scratch")
    try:
        report = taken.take({path.name: path for path in paths})
    except FirnlineError as error:
        schemas = [world and snapshot(world).schema for world in alone]
        if None not in schemas and schemas[0] == schemas[1]:
            raise AssertionError("an append takes both of them") from error
        return
    if report.log_file is None:
        assert not rows.num_rows
        return
    assert None not in alone, "what an append refuses, an import refuses"
    found = [values(scan(world.table).to_arrow()) for world in alone if world]
    for writer, each, read in zip((one, other), given, found, strict=True):
        if writer.exact:
            same(read, values(each))
    taken.can_be_kept(together(found))


@examples(6, 2_000)
@given(rows=tables(), one=WRITERS, other=WRITERS)
@pytest.mark.long
def test_whatever_an_import_takes_can_be_kept(rows: pa.Table, one: Writer, other: Writer) -> None:
    with folder() as at:
        played(rows, one, other, at)


@examples(4, 200)
@given(
    kinds=st.lists(st.sampled_from(sorted(STRANGE)), min_size=1, max_size=3, unique=True),
    writer=by_duckdb(),
)
def test_types_that_only_duckdb_has(kinds: list[str], writer: Writer) -> None:
    with folder() as at:
        path = at / "0.parquet"
        assume(strange(kinds, writer, path))
        alone, taken = appended(path), Taken(at / "scratch")
        try:
            taken.take({"0.parquet": path})
        except FirnlineError as error:
            said(error, r"lake/in/0\.parquet", "VARIANT" if alone else "")
            return
        assert alone is not None, "what an append refuses, an import refuses"
        taken.can_be_kept(values(scan(alone.table).to_arrow()))


NUMBERS: st.SearchStrategy[tuple[pa.DataType, list[Any]]] = st.one_of(
    *(
        st.tuples(st.just(kind), st.lists(st.none() | values, min_size=1, max_size=4))
        for kind, values in (
            (pa.int8(), st.integers(-128, 127)),
            (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
            (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)),
            (pa.uint16(), st.integers(0, 2**16 - 1)),
            (pa.uint64(), st.integers(0, 2**64 - 1)),
            (pa.float32(), st.floats(width=32)),
            (pa.float64(), st.floats()),
            (pa.decimal128(5, 2), st.decimals(-999, 999, places=2)),
            (pa.decimal128(38, 10), st.decimals(-(10**9), 10**9, places=10)),
            (pa.date32(), st.integers(-10_000, 10_000)),
            (pa.timestamp("ms"), st.integers(-(10**9), 10**9)),
            (pa.timestamp("us"), st.integers(-(10**15), 10**15)),
            (pa.timestamp("ns"), st.integers(-(10**18), 10**18)),
            (pa.string(), st.text(max_size=3)),
        )
    )
)


def exact(value: Any) -> Any:
    """A number as such, whatever its type."""
    try:
        return Fraction(value)
    except (TypeError, ValueError):
        return value


@examples(12, 2_000)
@given(each=st.lists(NUMBERS, min_size=2, max_size=3))
def test_files_with_other_types_keep_every_value_or_are_refused_by_name(
    each: list[tuple[pa.DataType, list[Any]]],
) -> None:
    with folder() as at:
        taken, expected, files = Taken(at / "scratch"), [], {}
        for number, (kind, given) in enumerate(each):
            keys = pa.array([OTHER * number + n for n in range(len(given))], pa.int64())
            rows = pa.table({KEY: keys, "x": pa.array(given, kind)})
            files[f"{number}.parquet"] = at / f"{number}.parquet"
            pq.write_table(rows, files[f"{number}.parquet"])
            expected.append(values(rows))
        try:
            taken.take(files)
        except (SchemaConflictError, PartSchemaError) as error:
            said(error, "column 'x'", r"lake/in/\d\.parquet")
            return
        found = taken.reads(None)
        whole = together(expected)
        assert [exact(value) for value in found["x"]] == [exact(value) for value in whole["x"]]
        taken.can_be_kept(None)


_FOLDER_TEXTS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-99, 99).map(str),
    st.floats().map(repr),
    st.dates().map(str),
    st.datetimes().map(str),
    st.datetimes(timezones=st.just(datetime.UTC)).map(datetime.datetime.isoformat),
    st.text(min_size=1, max_size=4),
    st.sampled_from(["007", "+5", "-0", ".5", "5.", "+1.5", "1e5", "1e400", "٣", "NaN", "1_000"]),
    st.sampled_from(["a=b", "%41", "2024-W01-1", "2024-02-30", "20240101", "0000-01-01"]),
    st.sampled_from(
        [
            f"2024-01-01{text}"
            for text in ("T10:00:00", "T10:00:00,5", "T10:00:00.1234567", "x10:00:00", " 10:00:00Z")
        ]
    ),
)


def of_folder(text: str | None, kind: str) -> Any:
    """What a folder states, as ``plain`` has it."""
    if text is None or kind == "VARCHAR":
        return text
    if kind in {"DATE", "TIMESTAMP"}:
        since = datetime.datetime.fromisoformat(text) - datetime.datetime(1970, 1, 1)  # noqa: DTZ001
        return since // datetime.timedelta(microseconds=1) * 1_000
    return repr(float(text)) if kind == "DOUBLE" else int(text)


@examples(12, 2_000)
@given(texts=st.lists(st.none() | _FOLDER_TEXTS, min_size=1, max_size=3, unique=True))
def test_what_folders_state_is_kept_whatever_it_is(texts: list[str | None]) -> None:
    with folder() as at:
        taken, files, expected = Taken(at / "scratch"), {}, {}
        for number, text in enumerate(texts):
            named = "__HIVE_DEFAULT_PARTITION__" if text is None else quote(text, safe=" +")
            path = at / f"{number}.parquet"
            pq.write_table(pa.table({KEY: [OTHER * number]}), path)
            files[f"p={named}/{path.name}"] = path
            expected[OTHER * number] = text
        report: Any = taken.take(files)
        kind = report.plan["path_columns"]["p"]
        found = taken.reads(None)
        wanted = [of_folder(expected[key], kind) for key in found[KEY]]
        assert found["p"] == wanted
        taken.can_be_kept(found)
