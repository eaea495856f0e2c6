"""Proof of a merge: the rows that it reads are those that it writes and those that go.

Digests (``types.digests``) of multisets add up, so the proof is one equation, whatever the way in
which rows are sorted, split and joined:

    inputs = outputs + rows that go

The inputs' digests are those of their markers, or are computed from the staged files; rows that go
are selected by a statement of their own, and outputs are read back as they are on disk right before
the upload. Nothing is uploaded unless it holds. Both sides are read from Parquet files by Arrow,
none by DuckDB, which writes them. No request is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from firnline.cores import Cores, side_by_side
from firnline.errors import PartUnreadableError, RowsDifferError
from firnline.kernel.forms import refuse_odd
from firnline.kernel.inputs import Inputs, Staged
from firnline.kernel.task import KernelInput, KernelTask
from firnline.types.digests import NOTHING, Digest, parse_digest, total
from firnline.types.sql import fold_name
from firnline.units import counted


@dataclass(slots=True)
class Proof:
    """The proof of one task: ``begin`` before its inputs are used up, ``end`` after its outputs.

    Args:
        task: the group; with ``proof`` ``counts`` nothing is read.
        folder: its scratch folder.
        copy: writes the rows of a query to a file that is read once; returns their number.
        stop_if_asked: raises if the task was told to stop.
        cores: lends idle cores, which read files and row groups side by side.
    """

    task: KernelTask
    folder: Path
    copy: Callable[[Path, str], int]
    stop_if_asked: Callable[[], None]
    cores: Cores = field(default_factory=Cores)
    staged: Sequence[Path] = ()
    read: Digest | None = None
    """Of the rows that are read, or, with a query, of those that it made; None: not known here."""
    gone: Digest | None = None
    """Of the rows that go."""
    written: list[Digest | None] = field(default_factory=list)
    derived: Digest | None = None
    """Of the only output, by the markers of the inputs."""
    later: Callable[[], Digest | None] | None = None
    """Computes ``read``, which is not needed before the end."""

    def begin(
        self, inputs: Inputs, select: Callable[[Staged], str], gone: str | None, gone_rows: int
    ) -> None:
        """Compute the digest of the rows that go; that of the inputs waits for ``settle``.

        Args:
            inputs: the files.
            select: returns the SELECT of the table's columns from some of them.
            gone: SELECT of the rows that go.
            gone_rows: their number, which was counted before.

        Raises:
            RowsDifferError: that statement selects another number of rows.
            duckdb.Error: an input cannot be read.
        """
        task, self.staged = self.task, tuple(inputs.rows_of)
        if task.query is not None or not self.task.has_digests:
            return
        if task.proof == "counts":
            apart = task.cluster is not None or task.layout is not None or task.slice is not None
            if not apart and not gone_rows:
                stated = self._stated(inputs)
                if len(stated) == len(inputs.rows_of):
                    self.derived = total(stated.values())
            return
        self.later = partial(self._read, inputs, select)
        self.gone = NOTHING
        if gone_rows and gone is not None:
            self.gone, count = self._query(gone)
            if count != gone_rows:
                raise differ(
                    task, f"{counted(gone_rows, 'row')} were to go, and {count} were selected"
                )

    def settle(self) -> None:
        """Compute the digest of the inputs, unless it is known: before any of them is used up.

        Raises duckdb.Error: an input cannot be read.
        """
        if self.later is not None:
            self.read, self.later = self.later(), None

    def reading(self, inputs: Inputs) -> Reading | None:
        """Return what whoever reads all columns of all files can compute the digest with.

        None if it is known, or not wanted. ``took`` has it once all are read.
        """
        if self.later is None or self.task.slice is not None:
            return None
        stated = self._stated(inputs)
        unknown = {path: rows for path, rows in inputs.rows_of.items() if path not in stated}
        return Reading(unknown, total(stated.values())) if unknown else None

    def took(self, reading: Reading) -> None:
        """Take the digest of the inputs from a complete reading."""
        self.read, self.later = reading.end(), None

    def made(self, path: Path) -> None:
        """Take the result of the task's query, which stands for the inputs from now on."""
        if self.task.proof == "rows" and self.task.has_digests:
            self.read, self.gone = self._file(path, cores=self.cores), NOTHING

    def output(self, path: Path, partition: str | None) -> Digest | None:
        """Read an output back; return its digest, None if it is unknown.

        Args:
            path: the finished file.
            partition: with a layout, the one that all of its rows have to be of.

        Raises:
            RowsDifferError: Arrow does not read what was written, or a row is of another partition.
        """
        if self.task.proof == "counts" or not self.task.has_digests:
            return self.derived
        seen = None
        if self.task.layout is not None and partition is not None:
            seen = _Within(self.task, partition)
        try:
            self.written.append(self._file(path, seen, self.cores))
        except PartUnreadableError as error:
            raise differ(self.task, f"an output cannot be read back ({error.message})") from error
        return self.written[-1]

    def end(self) -> Digest | None:
        """Compare both sides.

        Returns the digest of all rows of a slice whose inputs all state theirs: only all slices of
        its group together can be compared. Else None.

        Raises:
            InputError: they differ, and an input is written in a form that readers understand
                differently.
            RowsDifferError: they differ.
        """
        self.settle()
        written = [each for each in self.written if each is not None]
        if self.task.proof == "counts" or self.gone is None or len(written) < len(self.written):
            return None
        after = total([self.gone, *written])
        if self.read is None:
            return after if self.task.slice is not None else None
        if after != self.read:
            staged = (path for path in self.staged if path.exists())  # a query's are used up
            refuse_odd({str(path): self._source(path).key for path in staged})
            raise differ(self.task, self._reason(after))
        return None

    def _read(self, inputs: Inputs, select: Callable[[Staged], str]) -> Digest | None:
        """Return the digest of all rows of the inputs; None if it is unknown here."""
        stated, sliced = self._stated(inputs), self.task.slice is not None
        if sliced and len(stated) == len(inputs.rows_of):
            return None
        digests: list[Digest | None] = [] if sliced else list(stated.values())
        for group in inputs.staged:
            if group.is_whole and not sliced:
                unknown = [path for path in group.paths if path not in stated]
                found = self._inputs(unknown)
                digests += [
                    self._query(select(replace(group, paths=(path,))))[0]
                    if digest is None
                    else digest
                    for path, digest in zip(unknown, found, strict=True)
                ]
            else:
                digests.append(self._query(select(group))[0])
        certain = [each for each in digests if each is not None]
        return total(certain) if len(certain) == len(digests) else None

    def _inputs(self, paths: Sequence[Path]) -> list[Digest | None]:
        """Return the digests of staged files; None where DuckDB has the last word."""
        if len(paths) == 1:
            return [self._input(paths[0], self.cores)]
        # It needs numpy, which executors have only where rows are proven, split or hashed.
        from firnline.parquet.digests import reading_bytes

        jobs = [(path, reading_bytes(len(self.task.columns))) for path in paths]
        return side_by_side(jobs, self._input, self.cores, self._memory)

    def _input(self, path: Path, cores: Cores | None = None) -> Digest | None:
        """Return the digest of a staged file; None if Arrow cannot read it.

        Anybody may have written it, and Arrow aborts its process over some damaged footers: so
        another process parses it first.
        """
        from firnline.parquet.footers import is_safe

        try:
            # A type that Arrow's own schema in the file names may have no digest.
            return self._file(path, cores=cores) if is_safe(path) else None
        except PartUnreadableError:
            return None  # DuckDB reads what Arrow does not, or says which input is damaged

    def _stated(self, inputs: Inputs) -> Mapping[Path, Digest]:
        """Return what markers state of files of which every column is one of the table."""
        whole = (path for group in inputs.staged if group.is_whole for path in group.paths)
        digests = {path: parse_digest(self._source(path).digest) for path in whole}
        return {path: digest for path, digest in digests.items() if digest is not None}

    def _source(self, path: Path) -> KernelInput:
        return self.task.inputs[int(path.stem)]

    def _query(self, rows: str) -> tuple[Digest | None, int]:
        """Return the digest of a query's rows, and their number.

        They are written to a file first: a value has one form in Parquet, whoever asks for it.
        """
        path = self.folder / "proof.parquet"
        count = self.copy(path, rows)
        digest = self._file(path, cores=self.cores)
        path.unlink()
        return digest, count

    @property
    def _memory(self) -> int:
        """Bytes for what is read side by side: DuckDB has nothing to hold meanwhile."""
        return self.task.memory // 2

    def _file(
        self,
        path: Path,
        seen: Callable[[pa.RecordBatch], None] | None = None,
        cores: Cores | None = None,
    ) -> Digest | None:
        # It needs numpy, which executors have only where rows are proven, split or hashed.
        from firnline.parquet.digests import digest_file

        columns = {fold_name(name) for name, _ in self.task.columns}
        digested = digest_file(
            path,
            columns,
            stop_if_asked=self.stop_if_asked,
            seen=seen,
            cores=cores,
            memory=self._memory,
        )
        return None if digested is None else digested[0]

    def _reason(self, after: Digest) -> str:
        rotten = list(self._rotten())
        if rotten:
            return f"the rows of {', '.join(rotten[:3])} are not those that their markers state"
        outputs = counted(len(self.written), "output")
        return (
            f"the rows that were read have the digest {self.read}, and the {outputs} with the rows "
            f"that go {after}"
        )

    def _rotten(self) -> Iterator[str]:
        """Yield the keys of inputs whose rows are not those of their markers; for errors only."""
        if self.task.query is not None or self.task.slice is not None:
            return
        for path in self.staged:
            stated = parse_digest(self._source(path).digest)
            if stated is not None and path.exists() and not self._is(path, stated):
                yield self._source(path).key

    def _is(self, path: Path, stated: Digest) -> bool:
        """Return True if a staged file has the rows of a digest; what does not read has not."""
        try:
            return self._file(path) == stated
        except PartUnreadableError:
            return False


class Reading:
    """The digest of inputs whose columns somebody reads for another purpose, in any order.

    They are not decoded once more for the proof. Values are hashed as they come from the files:
    before they are put in order, encoded and joined.

    Args:
        rows_of: files and their numbers of rows.
        stated: digest of the other inputs.
    """

    def __init__(self, rows_of: Mapping[Path, int], stated: Digest) -> None:
        # It needs numpy, which executors have only where rows are proven, split or hashed.
        from firnline.types.rowhash import ColumnDigest

        begins = accumulate(rows_of.values(), initial=0)
        self._begins = dict(zip(rows_of, begins, strict=False))
        self._stated = stated
        self._digest = ColumnDigest(sum(rows_of.values()))

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return self._digest.bytes

    def add(self, path: Path, place: int, columns: pa.RecordBatch) -> None:
        """Add some columns of some rows.

        Args:
            path: their file; one with a digest in its marker adds nothing.
            place: number of the first of the rows in it.
            columns: their values.
        """
        begin = self._begins.get(path)
        if begin is not None:
            self._digest.add(begin + place, columns)

    def end(self) -> Digest:
        """Return the digest of all inputs, once every column of every row is added."""
        return self._digest.end().plus(self._stated)


@dataclass(frozen=True, slots=True)
class _Within:
    """Refuses rows of another partition than the output's."""

    task: KernelTask
    partition: str

    def __call__(self, batch: pa.RecordBatch) -> None:
        from firnline.parquet.partition import partition_codes

        assert self.task.layout is not None
        levels = self.task.layout.levels
        columns = {level.column: _plain(batch.column(level.column)) for level in levels}
        _, paths = partition_codes(pa.table(columns), levels)
        wrong = set(paths) - {self.partition}
        if wrong:
            raise differ(
                self.task, f"an output of partition {self.partition!r} has rows of {min(wrong)!r}"
            )


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def differ(task: KernelTask, why: str) -> RowsDifferError:
    """Return the error for a group whose outputs do not hold its rows."""
    return RowsDifferError(
        f"{task.name} failed its proof: {why}",
        next_step="nothing was changed; check the inputs with `firnline verify --rows`, run it "
        "again on another machine, and report this with the log of the run",
    )
