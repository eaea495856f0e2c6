"""Write the files that replace checked inputs; count all rows, and describe the outputs."""

from __future__ import annotations

import dataclasses
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from firnline.clock import Clock
from firnline.cores import Cores
from firnline.errors import KernelError
from firnline.kernel.columns import Columns, may_go_by_columns, places_in_order
from firnline.kernel.copies import copies_of, others
from firnline.kernel.duckdb import Try, tries
from firnline.kernel.faults import scratch_full
from firnline.kernel.inputs import Inputs, scan
from firnline.kernel.moves import move
from firnline.kernel.once import Once
from firnline.kernel.pieces import sort_in_pieces
from firnline.kernel.proof import Proof, Reading
from firnline.kernel.query.check import failed, in_brackets
from firnline.kernel.query.process import QueryEndedError, QueryRequest, run_query
from firnline.kernel.ranges import Range, Spreader
from firnline.kernel.sequence import stretches_of
from firnline.kernel.sort_codes import sort_codes
from firnline.kernel.sql import changing, copy_to, in_order, places, rows_in_all, statements
from firnline.kernel.task import KernelTask
from firnline.next_steps import REPORT_UNCHANGED
from firnline.parquet.join import Footer, join, read_footer, state
from firnline.parquet.part import DIGEST_KEY, read_pairs
from firnline.parquet.stats import from_footer, from_table
from firnline.types.digests import Digest
from firnline.types.hashes import Hashes
from firnline.types.order import Order
from firnline.types.sql import quote_name
from firnline.types.values import Stats

# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder


FORMS: Once[tuple[tuple[str, str], ...], Footer] = Once()
"""Footers as DuckDB writes them (``like``), by the columns of a table."""


@dataclass(frozen=True, slots=True)
class Written:
    """A finished output."""

    file: Path | bytes
    """Its path on local disk, or all of its bytes."""
    bytes: int
    rows: int
    """From its own footer, not from the number of rows to write."""
    stats: Stats
    hashes: Hashes = ()
    partition: str | None = None
    """Partition that it belongs to; None for that of the task."""
    digest: Digest | None = None
    """Of its rows, as they were read back; None: unknown."""
    sorted_by: Order = ()
    """Sort order that its footer states; empty: none."""


def describe(
    connection: duckdb.DuckDBPyConnection, path: Path, stats_columns: Sequence[str]
) -> Written:
    """Return rows and statistics of an output, from its footer or else by a query."""
    footer = pq.read_metadata(path)
    stats = from_footer(footer, stats_columns)
    unknown = [name for name in stats_columns if name not in stats]
    if unknown:
        stats |= _queried(connection, path, unknown)
    return Written(path, path.stat().st_size, footer.num_rows, stats)


def _queried(connection: duckdb.DuckDBPyConnection, path: Path, columns: Sequence[str]) -> Stats:
    """Query statistics of floats (a footer does not record NaNs) and texts too long for a footer.

    The extremes use the same code as the rows of an append: one place knows which bounds have a
    form in the log. NaN is DuckDB's greatest float, so an extreme shows it.
    """
    stats: Stats = {}
    for name in columns:
        column, source = quote_name(name), scan([path])
        kind = connection.execute(f"DESCRIBE SELECT {column} FROM {source}").fetchall()[0][1]
        if any(mark in kind for mark in "[(") and not kind.startswith("DECIMAL"):
            continue  # nested: no bounds, and perhaps no order
        nulls = connection.execute(f"SELECT count(*) - count({column}) FROM {source}").fetchall()
        extremes = connection.sql(
            f"SELECT min({column}) AS {column} FROM {source}"
            f" UNION ALL SELECT max({column}) FROM {source}"
        ).to_arrow_table()
        for bounded, (low, high, _) in from_table(extremes, [name]).items():
            stats[bounded] = (low, high, nulls[0][0])
    return stats


@dataclass(frozen=True, slots=True)
class Produced:
    """Row counts and outputs of the rewritten files (all files without ``only_touched``)."""

    rows_in: int
    deleted: int
    deduplicated: int
    removed: int
    outputs: tuple[Written, ...]
    """Empty if no row is left; more than one only for a clustered group."""
    hidden: dict[Path, int]
    """With ``only_touched``: rows hidden in or removed from each rewritten file."""
    in_place: bool = False
    """With ``layout``: all rows are of the task's own partition, and nothing is rewritten."""
    digest: Digest | None = None
    """See ``Proof.end``."""
    changed: int = 0
    """With ``changes``: rows for which it is true."""


@dataclass(frozen=True, slots=True)
class _Share:
    """The inputs that are rewritten."""

    inputs: Inputs
    lost: Counter[str]
    """Rows that vanish, by cause."""
    hidden: dict[Path, int]
    """With ``only_touched``: rows that vanish from each file."""
    changed: int


@dataclass(slots=True)
class Producer:
    """Produces the outputs of one task in its database."""

    task: KernelTask
    connection: duckdb.DuckDBPyConnection
    folder: Path
    clock: Clock
    cores: Cores
    stopped: Callable[[], bool]
    stop_if_asked: Callable[[], None]
    """Raises if the task was told to stop."""
    proof: Proof = field(init=False)

    def __post_init__(self) -> None:
        self.proof = Proof(self.task, self.folder, self._copy, self.stop_if_asked, self.cores)

    def run(self, paths: Sequence[Path], inputs: Inputs, keys: Path | None) -> Produced:
        """Count the rows that are removed, write those that stay.

        Args:
            paths: staged files, in the order of the task's inputs.
            inputs: their content, checked.
            keys: the staged key file.
        """
        types = dict(inputs.stored.values())
        share = self._share(inputs, types, keys)
        inputs, hidden = share.inputs, share.hidden
        deleted, removed = share.lost["deleted"], share.lost["removed"]
        visible = inputs.rows - deleted - removed
        if visible == 0 and self.task.slice is None:  # a slice proves its share of the group
            return Produced(inputs.rows, deleted, 0, removed, (), hidden)
        sql = statements(self.task, inputs, types, keys)
        deduplicated = visible - self._count(sql.primary_keys) if sql.primary_keys else 0
        metadata = metadata_of(self.task, [path in inputs.rows_of for path in paths])
        forgotten, lost_winners = self._losing(sql.losing)
        deduplicated, removed = deduplicated + forgotten, removed + lost_winners
        rows, count = sql.rows, inputs.rows - deleted - removed - deduplicated
        select = partial(rows_in_all, self.task, types)
        self.proof.begin(inputs, select, sql.gone, inputs.rows - count)
        if self.task.query is not None:
            rows, made = self._query(sql.rows, paths)
            if self.task.changes is not None and made != count:
                raise KernelError(
                    f"{count} rows were to be changed or kept, and the query returned {made}",
                    next_step=REPORT_UNCHANGED,
                )
            removed, count = removed + count - made, made
        outputs: tuple[Written, ...] | None = ()
        if (whole := self._in_sequence(inputs, types, count, metadata)) is not None:
            outputs = (whole,)
        else:
            taken = [path for path in paths if path in inputs.rows_of]
            values = sql.all_rows if self.task.query is None else rows
            codes = sort_codes(self.task, self.connection, types, values)
            order = places(self.task, inputs, types, codes, keys)
            if (whole := self._whole(inputs, types, order, count, metadata)) is not None:
                outputs = (whole,)
            elif count:
                self.proof.settle()
                outputs = self._outputs(rows, count, codes, metadata, taken)
        if outputs is None:
            return Produced(0, 0, 0, 0, (), {}, in_place=True)
        digest, of_all = self.proof.end(), (inputs.rows, deleted, deduplicated, removed)
        return Produced(*of_all, outputs, hidden, digest=digest, changed=share.changed)

    def _share(self, inputs: Inputs, types: dict[str, str], keys: Path | None) -> _Share:
        """Return the inputs that are rewritten, with what vanishes from them or changes."""
        task, changed = self.task, 0
        if task.changes is not None:
            counts = self.connection.execute(changing(task, inputs, types, keys)).fetchall()
            changed = sum(count for _, count in counts)
            touched = inputs.rows_of if task.primary_key else [Path(path) for path, _ in counts]
            inputs = inputs.only(touched if changed else ())
        lost, hidden = self._vanishing(statements(task, inputs, types, keys).vanishing)
        if task.changes is not None:
            hidden = {path: hidden.get(path, 0) for path in inputs.rows_of}
        elif task.only_touched:
            hidden = self._with_all_of_their_keys(inputs, types, keys, hidden)
            inputs = inputs.only(hidden.keys())
        return _Share(inputs, lost, hidden, changed)

    def _outputs(
        self,
        rows: str,
        count: int,
        codes: Mapping[str, str],
        metadata: dict[str, str],
        staged: Sequence[Path],
    ) -> tuple[Written, ...] | None:
        """Write the outputs; None if a layout has nothing to move."""
        task, stop = self.task, self.stop_if_asked
        common = self.connection, self.folder, stop
        ranges: list[Range] | None
        if task.layout is not None:
            # It needs numpy, which executors have only where they split.
            from firnline.kernel.partitions import Partitioner

            partitioner = Partitioner(task, task.layout, *common, self._copy, codes)
            ranges = partitioner.run(rows, count, staged)
            if ranges is None:
                return None
        elif task.cluster is not None:
            ranges = Spreader(task, task.cluster, *common, codes).run(rows, count, staged)
        elif (sort := sort_in_pieces(task, *common, codes, staged)) is not None:
            ranges = sort.run(rows, count, staged)
            if len(ranges) > 1:
                return (self._of_pieces(ranges, count, metadata),)
        else:
            ranges = [Range(in_order(task, rows, codes), count)]
        outputs: list[Written] = []
        for number, each in enumerate(ranges):
            stop()
            path, size = self.folder / f"output{number}.parquet", each.count or 0
            own = {} if each.partition is None else {"firnline.partition": each.partition}
            self._copy(path, each.rows, {**metadata, **own, "firnline.rows": str(size)})
            outputs.append(self._finished(path, size, each))
        return tuple(outputs)

    def _of_pieces(self, pieces: Sequence[Range], count: int, metadata: dict[str, str]) -> Written:
        """Sort the pieces one by one, each in memory, and join them."""
        return self._joined(self._sorted_one_by_one(pieces, "piece"), count, metadata)

    def _joined(self, parts: Sequence[Footer], count: int, metadata: Mapping[str, str]) -> Written:
        """Join files, which are used up, below each other into the only output."""
        self.stop_if_asked()
        path, pairs = self.folder / "output0.parquet", {**metadata, "firnline.rows": str(count)}
        join(parts, path, pairs, used_up=[footer.path for footer in parts])
        return self._finished(path, count)

    def _sorted_one_by_one(self, pieces: Sequence[Range], name: str) -> list[Footer]:
        footers: list[Footer] = []
        for number, piece in enumerate(pieces):
            self.stop_if_asked()
            path = self.folder / f"{name}{number}.parquet"
            self._copy(path, piece.rows, {"firnline.piece": str(number)})
            footers.append(read_footer(path))
            for used in piece.files:
                used.unlink()  # room for the next ones
        return footers

    def _in_sequence(
        self, inputs: Inputs, types: dict[str, str], count: int, metadata: dict[str, str]
    ) -> Written | None:
        """Write rows of which large files lie one behind the other; None if none of them does.

        Args: as of ``_whole``.
        """
        if not count or count != inputs.rows:
            return None
        task, form = self.task, self._form(types)
        stretches = stretches_of(task, inputs, lambda: form().schema)
        if not stretches:
            return None
        self.proof.settle()
        others = [path for each in stretches if each.copied is None for path in each.paths]
        codes: Mapping[str, str] = {}
        if others:
            rows = statements(task, inputs.only(others), types, None).all_rows
            codes = sort_codes(task, self.connection, types, rows)
        parts: list[Footer] = []
        for number, stretch in enumerate(stretches):
            if stretch.copied is not None:
                parts.append(stretch.copied)
            else:
                files = inputs.only(stretch.paths)
                parts += self._sorted(files, types, codes, f"stretch{number}-")
        return self._joined(parts, count, metadata)

    def _sorted(
        self, inputs: Inputs, types: dict[str, str], codes: Mapping[str, str], name: str
    ) -> list[Footer]:
        """Sort all rows of some files; return the footers of what is written, in order."""
        task, path = self.task, self.folder / f"{name}whole.parquet"
        order, own = places(task, inputs, types, codes, None), {"firnline.piece": name}
        if self._by_columns(inputs, order, inputs.rows, path, own, self._form(types)):
            return [read_footer(path)]
        rows, taken = statements(task, inputs, types, None).rows, tuple(inputs.rows_of)
        common = self.connection, self.folder, self.stop_if_asked
        sort = sort_in_pieces(task, *common, codes, taken)
        pieces = [Range(in_order(task, rows, codes), inputs.rows)]
        return self._sorted_one_by_one(sort.run(rows, inputs.rows, taken) if sort else pieces, name)

    def _whole(
        self,
        inputs: Inputs,
        types: dict[str, str],
        order: str,
        count: int,
        metadata: dict[str, str],
    ) -> Written | None:
        """Write rows as they are, as bytes or by Arrow; None if DuckDB has to write them.

        Args:
            inputs: files with all of them.
            types: DuckDB's type by column.
            order: the statement of the places of those that stay (``sql.places``).
            count: how many stay.
            metadata: key-value pairs of the output.
        """
        task, path = self.task, self.folder / "output0.parquet"
        pairs = {**metadata, "firnline.rows": str(count)}
        form = self._form(types)
        parts = copies_of(task, inputs, lambda: form().schema)
        if not parts:
            reading = self.proof.reading(inputs)
            if count and self._by_columns(inputs, order, count, path, pairs, form, reading):
                if reading is not None:
                    self.proof.took(reading)
                return self._finished(path, count)
            self.proof.settle()
            moved = move(task, inputs, path, pairs, form, self.stop_if_asked)
            return self._finished(path, count) if moved else None
        self.proof.settle()
        if (rest := others(inputs, parts)).rows:
            piece, own = self.folder / "rest.parquet", {"firnline.piece": "0"}
            if not move(task, rest, piece, own, form, self.stop_if_asked):
                rows = statements(task, rest, types, None).rows
                self._copy(piece, in_order(task, rows, {}), own)
            parts.append(read_footer(piece))
        return self._joined(parts, count, metadata)

    def _form(self, types: dict[str, str]) -> Callable[[], Footer]:
        """Return what returns the footer of a file that DuckDB writes for the task (``like``)."""
        made = partial(like, self.task, self.connection, self.folder, types)
        return partial(FORMS.get, self.task.columns, made)

    def _by_columns(
        self,
        inputs: Inputs,
        order: str,
        count: int,
        path: Path,
        metadata: dict[str, str],
        form: Callable[[], Footer],
        reading: Reading | None = None,
    ) -> bool:
        """Write the rows column by column; return False, without a file, if that cannot be."""
        task = self.task
        if not may_go_by_columns(task, inputs, self.cores):
            return False
        common = form, self.cores, self.stop_if_asked, reading
        group = Columns(task, inputs, count, path, metadata, *common)

        def found() -> pa.Array:
            return places_in_order(self.connection.sql(order).to_arrow_table(), inputs)

        with suppress(duckdb.OutOfMemoryException):
            stay = not task.sort_by and count == inputs.rows
            return group.merge(None if stay else found)
        return False

    def _losing(self, query: str | None) -> tuple[int, int]:
        """Count winning rows that are removed: key tombstones, and rows that ``keep`` removes."""
        if query is None:
            return 0, 0
        tombstones, removed = self.connection.execute(query).fetchall()[0]
        return int(tombstones), int(removed)

    def _with_all_of_their_keys(
        self, inputs: Inputs, types: dict[str, str], keys: Path | None, hidden: dict[Path, int]
    ) -> dict[Path, int]:
        """With a primary key, rewrite all files if one of them is rewritten."""
        if not self.task.primary_key:
            return hidden
        if not hidden and self.task.keep_winners:
            sql = statements(self.task, inputs, types, keys)
            if self._losing(sql.losing)[1]:
                return dict.fromkeys(inputs.rows_of, 0)
        return hidden and {path: hidden.get(path, 0) for path in inputs.rows_of}

    def _vanishing(self, query: str | None) -> tuple[Counter[str], dict[Path, int]]:
        """Count removed rows by cause, and by file."""
        which: Counter[str] = Counter()
        files: Counter[Path] = Counter()
        for name, path, count in self.connection.execute(query).fetchall() if query else ():
            which[name] += count
            if path:
                files[Path(path)] += count
        return which, dict(files)

    def _count(self, query: str) -> int:
        return int(self.connection.execute(query).fetchall()[0][0])

    def _query(self, rows: str, inputs: Sequence[Path]) -> tuple[str, int]:
        """Run the user's query once, into a file; return its rows and their number.

        Once, because it may call random() or now(); into a file, because the number must be known
        before the output is started.
        """
        task = self.task
        # Aliased: the query may spell a name in another case.
        columns = ", ".join(f"{quote_name(n)} AS {quote_name(n)}" for n, _ in task.columns)
        path = self.folder / "made.parquet"
        result = f"SELECT {columns} FROM {in_brackets(str(task.query))}"
        first, last = tries(task.memory, task.threads)
        try:
            made = self._run_query(rows, path, result, first)
        except duckdb.OutOfMemoryException:
            self.stop_if_asked()
            made = self._run_query(rows, path, result, last)
        self.proof.made(path)
        for staged in inputs:
            staged.unlink()  # room for the sort
        return f"SELECT * FROM {scan([path])}", made

    def _run_query(self, rows: str, path: Path, result: str, how: Try) -> int:
        task, query = self.task, str(self.task.query)
        request = QueryRequest(
            folder=str(self.folder),
            memory=task.memory,
            threads=how.threads,
            source=task.source,
            query=query,
            rows=rows,
            copy=copy_to(path, result, task, None, how),
        )
        limit = None if task.time_limit_ms is None else task.time_limit_ms / 1000
        try:
            return run_query(request, self.stopped, self.clock, limit)
        except QueryEndedError:
            raise duckdb.InterruptException("the query was stopped") from None
        except subprocess.TimeoutExpired:
            raise KernelError(
                f"the query over partition {task.partition or '(none)'} ran longer than "
                f"{(task.time_limit_ms or 0) // 1000} s and was ended",
                next_step="make it simpler or raise its time limit in the settings",
            ) from None
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            about_a_file = str(self.folder) in str(error) or type(error) is duckdb.Error
            if about_a_file or scratch_full(self.folder, error):
                raise
            raise failed(query, error, by_row=task.changes is not None) from error

    def _finished(self, path: Path, count: int, rows: Range | None = None) -> Written:
        """Read an output back, state in its footer what is known of it, and describe it."""
        partition = None if rows is None else rows.partition
        digest = self.proof.output(path, partition)
        pairs = {} if digest is None else {DIGEST_KEY: str(digest)}
        order = state(path, self.task.sort_by, pairs)
        names = {name for name, _ in self.task.columns}
        with_stats = [name for name in self.task.stats_columns if name in names]
        written = describe(self.connection, path, with_stats)
        if written.rows != count:
            raise KernelError(
                f"{count} rows were to be written, and {written.rows} were written",
                next_step=REPORT_UNCHANGED,
            )
        hashes = hashes_of(self.task, path, () if rows is None else rows.hashes)
        return dataclasses.replace(
            written, partition=partition, digest=digest, sorted_by=order, hashes=hashes
        )

    def _copy(self, path: Path, rows: str, metadata: dict[str, str] | None = None) -> int:
        """Write rows to a file, with less memory if it did not suffice; return their number."""
        first, last = tries(self.task.memory, self.task.threads)
        with suppress(duckdb.OutOfMemoryException):
            return self._count(copy_to(path, rows, self.task, metadata, first))
        self.stop_if_asked()
        self.connection.execute(f"SET threads = {last.threads}")
        return self._count(copy_to(path, rows, self.task, metadata, last))


# ruff: noqa: S608 -- every name and path is quoted; DuckDB is confined to this task's folder


def hashes_of(task: KernelTask, file: Path | bytes, own: Hashes = ()) -> Hashes:
    """Return the hash ranges of an output: of its inputs and rows, and buckets neither states.

    Args:
        task: the group.
        file: the output.
        own: what is known of its rows.
    """
    of_inputs = () if task.query is not None else task.hashes
    counted: Hashes = ()
    if task.buckets:
        # It needs numpy, which executors have only where they split.
        from firnline.kernel.hashes import buckets_in

        counted = buckets_in(file, task.buckets, task.columns, of_inputs)
    ranges = {each.about: each for each in (*of_inputs, *counted, *own)}
    return tuple(ranges[about] for about in sorted(ranges))


def like(
    task: KernelTask,
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    types: Mapping[str, str],
) -> Footer:
    """Return the footer of a file that DuckDB writes for a task, without rows.

    Args:
        task: the group.
        connection: a database.
        folder: its scratch folder, in which nothing is left.
        types: see ``inputs.stored_types``.
    """
    path = folder / "schema.parquet"
    nulls = ", ".join(
        f"CAST(NULL AS {types[name]}) AS {quote_name(name)}" for name, _ in task.columns
    )
    rows = in_order(task, f"SELECT {nulls} WHERE false", {})
    connection.execute(copy_to(path, rows, task, {}, tries(task.memory, task.threads)[0]))
    footer = read_footer(path)
    path.unlink()
    return footer


def metadata_of(task: KernelTask, taken: Sequence[bool]) -> dict[str, str]:
    """Return the task's metadata with ``replaces`` and ``o`` of the inputs that are rewritten.

    A rebuild of the log drops every part that another one replaces: an input that stays unchanged
    must not be listed there.

    Args:
        task: the group.
        taken: for every input, True if it goes into the output.
    """
    if all(taken):
        return dict(task.metadata)
    pairs = {name.encode(): text.encode() for name, text in task.metadata.items()}
    stated = read_pairs(f"group {task.group}", pairs)
    orders = [source.order for source in compress(task.inputs, taken)]
    if stated is None or None in orders or len(stated.replaces) != len(task.inputs):
        raise KernelError(
            f"group {task.group} does not state which parts its output is made from",
            next_step="report this with the log of the run",
        )
    spans = [order for order in orders if order is not None]
    whole = min(first for first, _ in spans), max(last for _, last in spans)
    replaces = tuple(compress(stated.replaces, taken))
    return replace(stated, o=whole, replaces=replaces).to_pairs()
