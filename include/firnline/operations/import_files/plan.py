"""Plans an import of a folder's files into partitions: pure, refuses before any copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from firnline.errors import (
    FirnlineError,
    ForeignPathError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    UsageError,
)
from firnline.next_steps import CORRECT_COLUMNS
from firnline.operations.import_files.path_columns import (
    own_folder,
    path_values,
    refuse_unknown_types,
    types_of,
)
from firnline.operations.import_files.types import Agreement
from firnline.operations.requests import FIXED_REQUESTS
from firnline.parquet.footers import FooterFacts
from firnline.paths import NULL_VALUE, TablePaths, quote_value
from firnline.rows.given import Fitting, GivenColumn
from firnline.settings.load import PartitionField, TableSettings
from firnline.types.order import Order
from firnline.types.sql import fold_name
from firnline.types.values import Scalar, Stats

if TYPE_CHECKING:
    import pyarrow as pa

COPY_LIMIT = 5 * 2**30
"""Bytes that S3 copies in one request."""
_SHOWN = 20
"""Files that an error names at most."""
_SEVERAL = "its rows are not known to lie in one partition"
_JSON = re.compile(r"\bJSON\b")
_SPLIT = (
    "add --split, by which its rows are read and written, split it by partition, or give the "
    "table no partition_by"
)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file whose rows are to be in the table."""

    source: str
    partition: str | None
    """None: of several partitions, or of which nobody knows."""
    rows: int
    bytes: int
    stats: Stats = field(default_factory=dict)
    in_place: bool = False
    sorted_by: Order = ()
    """Sort order that its footer states; empty: none."""
    row_groups: tuple[tuple[int, int], ...] = ()
    """Of a file that is read: rows and uncompressed bytes of each."""
    why: str = ""
    """Reason why its rows are read and written anew; empty: it becomes a part as it is."""
    fitting: Fitting = field(default_factory=Fitting)
    """Of a file that is read: what makes its rows those of the table."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that cannot be taken."""

    file: str
    error: FirnlineError


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The plan of an import."""

    files: tuple[PlannedFile, ...]
    """Files that are copied, or lie in place: each lies in one partition."""
    anew: tuple[PlannedFile, ...]
    """Files whose rows are read and written."""
    columns: dict[str, str]
    """Columns of the table and of all files, column -> SQL type."""
    own: dict[str, str]
    """Columns of the files and of their folders, column -> SQL type."""
    path_columns: dict[str, str]
    """Columns that only the folders state, column -> SQL type."""
    empty: tuple[str, ...]
    """Files without a row."""
    ignored: tuple[str, ...]
    """Keys of objects that are left out: no Parquet files, hidden or excluded."""
    bad: tuple[Fault, ...]
    """Files that cannot be taken and are left out."""
    known: int
    """Files in place that are parts already, and those that earlier imports took."""
    changed: tuple[str, ...]
    """Files that earlier imports took, and that somebody has written again since."""
    footers: int

    def without(self, faults: Sequence[Fault]) -> ImportPlan:
        """Return the plan without files of which it turned out that they cannot be taken."""
        bad = {each.file for each in faults}
        anew = tuple(file for file in self.anew if file.source not in bad)
        return replace(self, anew=anew, bad=(*self.bad, *faults))

    @property
    def makes(self) -> tuple[object, ...]:
        """Files and columns of the table that it makes; equal plans write the same parts."""
        return self.files, self.anew, self.columns, self.own, self.path_columns

    @property
    def nothing_to_do(self) -> bool:
        """Return True if there is no file to import."""
        return not self.files and not self.anew

    @property
    def requests(self) -> int:
        """Estimate: a GET per footer, a copy per file that is not in place, a few more.

        Of files that are read, whose rows alone tell how many parts they make: a GET and a PUT.
        """
        copies = sum(not f.in_place for f in self.files)
        return self.footers + copies + 2 * len(self.anew) + FIXED_REQUESTS

    @property
    def partitions(self) -> dict[str, list[PlannedFile]]:
        """Files by partition, without those of which only the rows tell it."""
        found: dict[str, list[PlannedFile]] = {}
        for file in (*self.files, *self.anew):
            if file.partition is not None:
                found.setdefault(file.partition, []).append(file)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals and a row per partition, of files of which it is known."""
        every = (*self.files, *self.anew)
        split = [file for file in self.anew if file.partition is None]
        return {
            **_totals(every),
            "copies": sum(not f.in_place for f in self.files),
            "split": _totals(split),
            "anew": {**_totals(self.anew), "why": dict(Counter(f.why for f in self.anew))},
            "requests": self.requests,
            "partitions": [
                {"partition": name, **_totals(files)} for name, files in self.partitions.items()
            ],
            "columns": self.columns,
            "path_columns": self.path_columns,
            "empty": list(self.empty),
            "ignored": list(self.ignored),
            "bad": [
                {"file": f.file, "reason": f.error.message, "next_step": f.error.next_step}
                for f in self.bad
            ],
            "known": self.known,
            "changed": list(self.changed),
        }


def _totals(files: Sequence[PlannedFile]) -> dict[str, int]:
    rows, size = sum(f.rows for f in files), sum(f.bytes for f in files)
    return {"files": len(files), "rows": rows, "bytes": size}


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The imported folder and the table that it goes into."""

    settings: TableSettings
    paths: TablePaths
    source: str
    """Key prefix of the folder, ending in ``/``."""
    split: bool = False
    """Read and write the rows of a file of which the footer does not prove that they lie in one
    partition; False: such a file is refused."""
    skip_bad: bool = False
    """Leave files out that cannot be taken; False: one of them refuses all."""
    path_columns: bool = True
    """Columns that only the folders state are columns of the rows."""
    path_types: Mapping[str, str] = field(default_factory=dict)
    """Types of such columns that somebody has stated."""
    again_and_again: bool = False
    """Only new files are taken: none of them need state a column whose type is stated."""

    def in_place(self, key: str) -> bool:
        """Return True for a file under the table's ``_data/``."""
        return key.startswith(self.paths.data_dir)

    def states(self, facts: FooterFacts) -> dict[str, str | None]:
        """Return what the folders of a file state of columns that it does not have itself."""
        if not self.path_columns or self.in_place(facts.key):
            return {}
        own = {fold_name(name) for name in facts.columns}
        found = path_values(self.source, facts.key)
        return {name: text for name, text in found.items() if fold_name(name) not in own}


def plan_import(
    folder: Folder,
    footers: Sequence[FooterFacts],
    table: Mapping[str, str],
    *,
    ignored: Sequence[str] = (),
    already: int = 0,
    changed: Sequence[str] = (),
) -> ImportPlan:
    """Decide which file goes into which partition, and which is read and written anew.

    Args:
        folder: what is imported, and how.
        footers: of its Parquet files, with their form and statistics of the partition columns.
        table: the table's columns -> SQL type.
        ignored: objects that are left out.
        already: files that are in the table already.
        changed: files that are, and were written again since.

    Raises:
        PartUnreadableError, PartSchemaError: a file that does not read, or holds what no part can.
        SchemaConflictError: no type holds a column of two files, or of a file and the table.
        UsageError: a file's partition cannot be told, or it spans several, or it is too large; or
            several files cannot be taken, all of which it names.
    """
    faults: list[Fault] = []
    fine = [facts for facts in footers if not _told(facts, faults)]
    full = [facts for facts in fine if facts.rows]
    states = _states(folder, full, faults)
    full = [facts for facts in full if facts.key in states]
    types = Agreement(table, folder.path_types)
    agreed = [facts for facts in full if _agrees(types, facts, faults)]
    of_paths = _settle_paths(folder, types, [states[facts.key] for facts in agreed])
    planned = []
    for facts in agreed:
        try:
            planned.append(_planned(folder, facts, types, states[facts.key]))
        except FirnlineError as error:
            faults.append(Fault(facts.key, error))
    if faults and not folder.skip_bad:
        refused = refusal(faults, len(footers))
        refused.exit_code = 2  # a wrong call, as of an append: nothing was begun
        raise refused
    _check_columns(folder.settings, types.columns)
    own = dict.fromkeys(name for facts in agreed for name in (*facts.columns, *states[facts.key]))
    return ImportPlan(
        files=tuple(file for file in planned if not file.why),
        anew=tuple(file for file in planned if file.why),
        columns=types.columns,
        own={name: types.columns[name] for name in own},
        path_columns=of_paths,
        empty=tuple(facts.key for facts in fine if not facts.rows),
        ignored=tuple(ignored),
        bad=tuple(faults),
        known=already,
        changed=tuple(changed),
        footers=len(footers),
    )


def _told(facts: FooterFacts, faults: list[Fault]) -> bool:
    """Add the fault of a footer, if it has one."""
    if facts.error is None:
        return False
    bad_columns = facts.key not in facts.error
    kind = PartSchemaError if bad_columns else PartUnreadableError
    where = f"{facts.key}: " if bad_columns else ""
    faults.append(Fault(facts.key, kind(where + facts.error, next_step=facts.next_step)))
    return True


def _states(
    folder: Folder, files: Iterable[FooterFacts], faults: list[Fault]
) -> dict[str, dict[str, str | None]]:
    """Return what the folders of each file state; of one that states nonsense, add the fault."""
    found = {}
    for facts in files:
        try:
            found[facts.key] = folder.states(facts)
        except PartSchemaError as error:
            faults.append(Fault(facts.key, error))
    return found


def _agrees(types: Agreement, facts: FooterFacts, faults: list[Fault]) -> bool:
    """Add the columns of a file; if they do not agree with the others, that is its fault."""
    try:
        types.add(facts.key, facts.columns)
    except SchemaConflictError as error:
        faults.append(Fault(facts.key, error))
        return False
    return True


def _settle_paths(
    folder: Folder, types: Agreement, states: Sequence[Mapping[str, str | None]]
) -> dict[str, str]:
    """Give columns of paths their types; return those that are there."""
    names = dict.fromkeys(name for each in states for name in each)
    if not folder.again_and_again:
        refuse_unknown_types(folder.path_types, names)
    found = types_of(states, types.columns)
    types.add("the folders", found)
    return {name: types.columns[name] for name in found}


def refusal(faults: Sequence[Fault], files: int) -> FirnlineError:
    """Return one error of all files that cannot be taken."""
    first = faults[0].error
    if len(faults) == 1:
        return first
    same = len({type(each.error) for each in faults}) == 1
    steps = {each.error.next_step for each in faults}
    lines = [each.error.message for each in faults[:_SHOWN]]
    lines += [f"… and {len(faults) - _SHOWN:,} more"] if len(faults) > _SHOWN else []
    several = "correct them; a dry run with --skip-bad and --json has a step for each"
    step = steps.pop() if len(steps) == 1 else several
    kind = type(first) if same else UsageError
    return kind(
        f"{len(faults):,} of {files:,} files cannot be taken:",
        next_step=f"{step}; or take the others with --skip-bad",
        listed=lines,
    )


def _planned(
    folder: Folder, facts: FooterFacts, types: Agreement, states: Mapping[str, str | None]
) -> PlannedFile:
    """Return a file, and why its rows are to be read and written, if they are."""
    in_place = folder.in_place(facts.key)
    from firnline.rows.foreign import value_of

    given = tuple(GivenColumn(name, types.columns[name], text) for name, text in states.items())
    for each in given:
        value_of(each, facts.key)
    casts = types.casts(facts.columns)
    why = _why(facts, casts, given, in_place=in_place)
    if why and in_place:
        # Taken in as it is it would be a part that stays there, and be found again.
        raise UsageError(
            f"{facts.key} has to be written anew: {why}",
            next_step=f"move it out of {folder.paths.data_dir} and import that folder",
        )
    partition, why = _place(folder, facts, why)
    if not why and not in_place:
        _refuse_large(folder, facts)
    return PlannedFile(
        facts.key,
        partition,
        facts.rows,
        facts.bytes,
        facts.stats,
        in_place,
        facts.sorted_by,
        facts.row_groups if why else (),
        why,
        Fitting(given=given, casts=tuple(casts.items())) if why else Fitting(),
    )


def _place(folder: Folder, facts: FooterFacts, why: str) -> tuple[str | None, str]:
    """Return the partition of a file, None if only its rows tell it; and why they are read."""
    if why and folder.settings.partition_by:
        return None, why
    try:
        return partition_of(folder, facts), why
    except NotOnePartitionError as error:
        if folder.in_place(facts.key):
            raise UsageError(
                error.message,
                next_step=f"move it out of {folder.paths.data_dir} and import that folder with "
                "--split",
            ) from None
        if not folder.split:
            raise
        return None, _SEVERAL


def _why(
    facts: FooterFacts,
    casts: Mapping[str, str],
    given: Sequence[GivenColumn],
    *,
    in_place: bool,
) -> str:
    """Return why the rows of a file are to be read and written; empty if it can be a part."""
    if given:
        return f"the folders alone state {', '.join(each.name for each in given)}"
    for name, how in facts.odd.items():
        return f"column {name!r} is {how}"
    for name, kind in casts.items():
        return f"column {name!r} is {facts.columns[name]} and becomes {kind}"
    for name, kind in facts.columns.items():
        if not in_place and _JSON.search(kind):
            return f"column {name!r} has JSON, whose texts are checked"
    return ""


def _refuse_large(folder: Folder, facts: FooterFacts) -> None:
    if facts.bytes > COPY_LIMIT and folder.settings.root.startswith("s3://"):
        raise UsageError(
            f"{facts.key} has {facts.bytes} bytes, and a store copies at most {COPY_LIMIT} in "
            "one request",
            next_step=f"copy it to {folder.paths.data_dir} by other means and import that folder",
        )


def _check_columns(settings: TableSettings, columns: Mapping[str, str]) -> None:
    for name in settings.statistics_columns:
        if columns and name not in columns:
            raise UsageError(
                f"the settings of table {settings.name} name column {name!r}, and files and table "
                f"have {', '.join(columns)}",
                next_step=CORRECT_COLUMNS,
            )


class NotOnePartitionError(UsageError):
    """The footer of a file does not prove that its rows lie in one partition."""


def partition_of(into: Folder, facts: FooterFacts) -> str:
    """Return the partition path of a file.

    Args:
        into: folder and table. With ``partition_by`` the statistics have to prove it.
        facts: the file's footer.

    Raises UsageError that names the file; NotOnePartitionError if it may span partitions.
    """
    settings, paths, in_place = into.settings, into.paths, into.in_place(facts.key)
    base = paths.data_dir if in_place else into.source
    folder = own_folder(facts.key.removeprefix(base).rpartition("/")[0])
    if settings.partition_by:
        proven = "/".join(_segment(field, facts) for field in settings.partition_by)
        if in_place and proven != folder:
            raise UsageError(
                f"{facts.key} lies in partition {folder!r}, and its rows belong to {proven!r}",
                next_step="move it to the folder of its partition",
            )
        return proven
    if settings.partition is not None and re.fullmatch(settings.partition, folder) is None:
        raise UsageError(
            f"{facts.key} lies in {folder!r}, and partitions of table {settings.name} match "
            f"{settings.partition}",
            next_step="move it, or correct the setting partition",
        )
    try:
        paths.check_part(paths.data_part(folder, "part"))
    except ForeignPathError:
        raise UsageError(
            f"the folder of {facts.key} cannot be a partition", next_step="rename the folder"
        ) from None
    return folder


def _segment(field: PartitionField, facts: FooterFacts) -> str:
    """Return one level of the directory, proven by the file's statistics."""
    if field.column not in facts.columns:
        raise UsageError(
            f"{facts.key} has no column {field.column!r}, which {field} needs",
            next_step="write the column into the file, or give the table no partition_by: then "
            "its partitions are the folders as they are",
        )
    bounds = facts.stats.get(field.column)
    if bounds is None:
        raise NotOnePartitionError(
            f"the footer of {facts.key} does not say between which values column "
            f"{field.column!r} lies, so nobody knows its partition",
            next_step=_SPLIT,
        )
    low, high, nulls = bounds
    label = quote_value(field.label)
    if nulls == facts.rows:
        return f"{label}={NULL_VALUE}"
    segments = _names(field, facts.columns[field.column], low, high)
    if nulls:
        segments.append(f"{label}={NULL_VALUE}")
    if len(set(segments)) > 1:
        raise NotOnePartitionError(
            f"the rows of {facts.key} lie in several partitions, from {segments[0]!r} to "
            f"{segments[-1]!r}",
            next_step=_SPLIT,
        )
    return segments[0]


def _names(field: PartitionField, kind: str, low: Scalar, high: Scalar) -> list[str]:
    """Return the segments of the smallest and largest value. Time transforms keep the order."""
    from firnline.parquet.partition import partition_batches

    if high is None or (low != high and field.transform in {"identity", "bucket"}):
        return [f"{field.label} of {low!r}", f"{field.label} of {high!r}"]
    rows = _table({field.column: kind}, [low, high])
    return [path for path, _ in partition_batches(rows, [field])]


def _table(columns: Mapping[str, str], values: Sequence[Scalar]) -> pa.Table:
    """Return the bounds as the column's own values."""
    import pyarrow as pa

    from firnline.types.arrow import to_arrow

    schema = to_arrow(columns)
    (field,) = schema
    if pa.types.is_integer(schema.field(0).type):
        return pa.table([pa.array(values, schema.field(0).type)], schema=schema)
    array = pa.array(list(values))
    if pa.types.is_timestamp(field.type):
        # Bounds are texts with microseconds, also of a column that has coarser units.
        array = array.cast(pa.timestamp("us", field.type.tz))
    return pa.table([array.cast(field.type, safe=False)], schema=schema)
