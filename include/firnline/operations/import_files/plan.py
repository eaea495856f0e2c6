"""Plans an import of a folder's files into partitions: pure, refuses before any copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firnline.errors import (
    FirnlineError,
    PartSchemaError,
    PartUnreadableError,
    SchemaConflictError,
    UsageError,
)
from firnline.next_steps import CORRECT_COLUMNS
from firnline.operations.import_files.partition import NotOnePartitionError, partition_of
from firnline.operations.import_files.path_columns import (
    refuse_unknown_types,
    types_of,
)
from firnline.operations.import_files.source import Folder
from firnline.operations.import_files.types import Agreement
from firnline.operations.requests import FIXED_REQUESTS
from firnline.parquet.footers import FooterFacts
from firnline.rows.given import Fitting, GivenColumn
from firnline.settings.load import TableSettings
from firnline.types.order import Order
from firnline.types.values import Stats

COPY_LIMIT = 5 * 2**30
"""Bytes that S3 copies in one request."""
_SHOWN = 20
"""Files that an error names at most."""
_SEVERAL = "its rows are not known to lie in one partition"
_JSON = re.compile(r"\bJSON\b")


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
        by_partition: dict[str, list[PlannedFile]] = {}
        for file in (*self.files, *self.anew):
            if file.partition is not None:
                by_partition.setdefault(file.partition, []).append(file)
        return dict(sorted(by_partition.items()))

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
    states = {}
    for facts in files:
        try:
            states[facts.key] = folder.states(facts)
        except PartSchemaError as error:
            faults.append(Fault(facts.key, error))
    return states


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
