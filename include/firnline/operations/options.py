"""The options of every operation: forms, commands, jobs and docs are made of them (``fields``)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.asked import AskedKeys, asked_of
from firnline.operations.common_options import DryRun, Mode, Partitions, partitions
from firnline.operations.fields import Option, OwnCheck
from firnline.operations.import_options import (
    ImportOptions as ImportOptions,  # noqa: PLC0414 - with the options of all operations
)
from firnline.operations.inline_keys import keys_of
from firnline.operations.prepare_options import Assertions, Keep, KeyColumns, Prepare, Samples
from firnline.operations.what_if_options import (
    WhatIfOptions as WhatIfOptions,  # noqa: PLC0414 - likewise
)

_PICKED = "A number is written under *Advanced Options*, as JSON."


class MergeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a merge."""

    partitions: Partitions = ()
    max_bytes: Annotated[
        int | None,
        Option(
            "Bytes to read at most",
            "At most this much in one run, such as `10GiB`; the rest waits for the next run.",
            absent="`merge.max_bytes_per_run` of the table's settings",
            metavar="SIZE",
            unit="size",
            least=1,
        ),
    ] = None
    full: Annotated[
        bool,
        Option(
            "Full",
            "Bring the partitions to the fewest parts now, whatever `merge.min_inputs`, "
            "`merge.settle` and `merge.finish_after` say, and all parts to the order of `sort_by`.",
        ),
    ] = False
    dry_run: DryRun = False


class AnalyzeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an analyze."""

    partitions: Partitions = ()
    hashes: Annotated[
        bool,
        Option(
            "Hash ranges",
            "Also count hash ranges of parts that state none: their columns are read.",
        ),
    ] = False
    dry_run: DryRun = False


class MirrorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a publication of a mirror."""

    repair: Annotated[
        bool,
        Option(
            "Repair",
            "Look for damage in the Delta mirror too, and repair it by a new version.",
        ),
    ] = False
    dry_run: DryRun = False


class CleanupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a clean-up."""

    dry_run: DryRun = False
    max_deletes: Annotated[
        int | None,
        Option(
            "Objects to delete at most",
            "At most this many in one run; the rest waits for the next.",
            absent="`cleanup.max_deletes_per_run` of the table's settings",
            metavar="N",
            least=1,
            most=1_000_000_000,
        ),
    ] = None
    old_types: Annotated[
        bool,
        Option(
            "Old types",
            "Delete folded log files that state another type than the table's at once, for clients "
            "of version 1, who refuse the table until then. A stream that has not read the appends "
            "in them is behind.",
            form=False,
        ),
    ] = False


class TtlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a TTL run."""

    partitions: Partitions = ()
    force: Annotated[
        bool,
        Option("Force", "Also where more rows go than `ttl.max_removed_fraction` allows."),
    ] = False
    agreed: float = 0.0
    """Fraction of the table that somebody has seen and agreed to, if that is more than goes without
    a question."""
    dry_run: DryRun = False


class DropOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a removal of partitions."""

    partitions: tuple[str, ...]
    """Exact names."""
    expected: dict[str, str] = {}
    """Partition -> version as listed; one that changed since is refused."""
    dry_run: DryRun = False


class RewriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a rewrite; exactly one of ``where`` and ``sql``."""

    where: Annotated[
        str | None,
        Option(
            "Rows to keep",
            "A condition for the rows that STAY, such as `dep_delay is not null`: and, or, not "
            "over comparisons of columns with literals, in DuckDB's dialect. A row for which it is "
            "false or null goes.",
            metavar="SQL",
            example="dep_delay is not null",
            example_of="condition",
        ),
    ] = None
    sql: Annotated[
        str | None,
        Option(
            "Query",
            "Instead of `where`: a SELECT in DuckDB's dialect over `_rows`, the rows of one "
            "partition, such as `select * replace (upper(carrier) as carrier) from _rows`. Its "
            "columns and types must be the table's.",
            metavar="QUERY",
            example="select * replace (upper(carrier) as carrier) from _rows",
            example_of="query",
        ),
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        partitions(
            "all partitions",
            in_form="By hand they are needed, `*` is all; in a backfill they narrow its dates.",
        ),
    ] = ()
    start_ms: Annotated[
        int | None,
        Option(
            "From",
            "Only partitions whose whole span of time lies between `--from` and `--until`, which "
            "is exclusive, as `2013-02-01`; both or neither.",
            metavar="TIME",
            flag="--from",
            form=False,
            unit="time",
        ),
    ] = None
    """Unix ms."""
    end_ms: Annotated[
        int | None,
        Option(
            "Until",
            "End of that span, exclusive; see `--from`.",
            metavar="TIME",
            flag="--until",
            form=False,
            unit="time",
        ),
    ] = None
    """Unix ms."""
    force: Annotated[
        bool,
        Option("Force", "Also where more rows go than `rewrite.max_removed_fraction` allows."),
    ] = False
    first_try: int = 0
    """First try of this execution of the run: partitions committed since are done. 0: all again."""
    dry_run: DryRun = False
    prepare: Prepare = False
    assertions: Assertions = ()
    keys: KeyColumns = ()
    samples: Samples = None
    keep: Keep = None


class UpdateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an update."""

    set: Annotated[
        tuple[str, ...],
        Option(
            "New values",
            "A column and the expression of its new value, such as `status = 'closed'`, in "
            "DuckDB's dialect over the columns of the row as they were; once for each column.",
            metavar="ASSIGNMENT",
            example="status = 'closed'",
            example_of="new value",
        ),
    ]
    where: Annotated[
        str,
        Option(
            "Rows to change",
            "A condition for the rows that change, such as `carrier = 'AA' and dep_delay > 60`: "
            "and, or, not over comparisons of columns with literals, in DuckDB's dialect; `true` "
            "for all. A row for which it is false or null stays as it is.",
            metavar="SQL",
        ),
    ]
    partitions: Partitions = ()
    first_try: int = 0
    """First try of this execution of the run: what one of them has committed is done. 0: again."""
    dry_run: DryRun = False
    prepare: Prepare = False
    assertions: Assertions = ()
    keys: KeyColumns = ()
    samples: Samples = None
    keep: Keep = None


class RepartitionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a repartition."""

    partitions: Partitions = ()
    every: Annotated[
        bool,
        Option(
            "All",
            "Also read partitions whose names are of the layout, and move rows that belong "
            "elsewhere: after a change of the number of buckets.",
            flag="--all",
        ),
    ] = False
    dry_run: DryRun = False


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a delete."""

    where: Annotated[
        str,
        Option(
            "Rows to delete",
            "A condition for the rows that go, such as `carrier = 'AA' and dep_delay > 60`: and, "
            "or, not over comparisons of columns with literals, in DuckDB's dialect; or the same "
            "as JSON.",
            metavar="SQL",
        ),
    ]
    """SQL text, or a predicate as JSON (docs/format.md)."""
    partitions: Partitions = ()
    mode: Annotated[
        Mode | None,
        Option(
            "Mode",
            "`eager` rewrites the parts that hold such rows at once; `lazy` hides the rows from "
            "readers at once and leaves the rest to the next merge.",
            absent="`deletes` of the table's settings",
        ),
    ] = None
    dry_run: DryRun = False


class ReplaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a replace."""

    files: Annotated[
        tuple[str, ...],
        Option(
            "New rows",
            "Parquet files with the new rows, or folders of them: URLs in the table's bucket, such "
            "as `s3://bucket/staged/2024-03-05/`, or paths where the command runs.",
            in_form="These or `nothing` are needed.",
            metavar="[FILES]",
            argument=True,
        ),
    ] = ()
    start: Annotated[
        str | int | float,
        Option(
            "Start",
            "Start of the interval, inclusive: `2024-03-05T07:00`.",
            in_form=_PICKED,
            metavar="VALUE",
            moment=True,
        ),
    ]
    """In the form of docs/format.md, or as text."""
    end: Annotated[
        str | int | float,
        Option(
            "End",
            "End of the interval, exclusive: `2024-03-05T08:00`.",
            in_form=_PICKED,
            metavar="VALUE",
            moment=True,
        ),
    ]
    column: Annotated[
        str | None,
        Option(
            "Column",
            "Column of times, dates or numbers; a row with a null there is never replaced.",
            absent="the time of `partition_by`, of `ttl.column`, or the first of `sort_by`",
            metavar="NAME",
        ),
    ] = None
    nothing: Annotated[
        bool, Option("Nothing", "Instead of new rows: the interval is empty afterwards.")
    ] = False
    equal: Annotated[
        dict[str, str | int | float | bool],
        Option(
            "Equal",
            "Only rows that have these values, such as `client=1234`.",
            in_form='As JSON: `{"client": 1234}`.',
            metavar="COLUMN=VALUE",
            flag="--where-equal",
        ),
    ] = {}
    partition: Annotated[
        str | None,
        Option(
            "Partition",
            "Path of all new rows, such as `d=2026-01-31`; only without `partition_by`.",
            metavar="PATH",
        ),
    ] = None
    mode: Annotated[
        Mode | None,
        Option(
            "Mode",
            "Parts that the interval cuts: `eager` rewrites them at once, `lazy` leaves them to "
            "the next merge.",
            absent="`deletes` of the table's settings",
        ),
    ] = None
    dry_run: DryRun = False


class RestoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a restore."""

    to: Annotated[
        int,
        Option(
            "Transaction",
            "The last transaction after which the state was right, by its number in "
            "`firnline history`; 0: before the first.",
            in_form="[Tables](plugin/firnline-tables) lists those of each table, with *Plan a "
            "restore to here*; the log of `plan` lists the newest.",
            metavar="SEQ",
            least=0,
            most=999_999_999,
        ),
    ]
    partitions: Annotated[
        tuple[str, ...],
        partitions("the whole table", in_form="They are needed, `*` is all.", flag="--partition"),
    ] = ()
    exact: Annotated[bool, Option("Exact", "Also remove what was appended since.")] = False
    newest: Annotated[
        int | None,
        Option(
            "Newest transaction to undo",
            "The newest transaction that the dry run had seen: if a later one has changed these "
            "partitions, nothing is restored.",
            absent="every later transaction is undone",
            metavar="SEQ",
            least=0,
            most=999_999_999,
        ),
    ] = None
    dry_run: DryRun = False


class EraseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an erase."""

    columns: Annotated[
        tuple[str, ...],
        Option(
            "Key columns",
            "Names of columns; a row goes when all of them equal those of one key.",
            metavar="NAME",
            flag="--column",
        ),
    ]
    keys: Annotated[tuple[tuple[str | int | float | bool | None, ...], ...], OwnCheck()] = ()
    """A few keys, as ``inline_keys`` takes them. What asks for them says who else sees them."""
    keys_file: Annotated[
        str | None,
        Option(
            "File of keys",
            "Parquet or CSV with these columns: a URL in the table's bucket, or a path that the "
            "command can read (in Airflow: the worker and the Spark driver).",
            metavar="FILE",
            flag="--keys",
        ),
    ] = None
    requests: Annotated[tuple[AskedKeys, ...], OwnCheck()] = ()
    """Instead of keys: requests of erasure, whose keys are read where they lie."""
    dry_run: DryRun = False

    def __post_init__(self) -> None:
        """Make a tuple of each key. Raises UsageError: keys or requests are no list of them."""
        msgspec.structs.force_setattr(self, "keys", keys_of(self.keys))
        msgspec.structs.force_setattr(self, "requests", asked_of(self.requests))


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a sweep."""

    older_than: Annotated[
        int | None,
        Option(
            "Older than",
            "Minimum age of an orphan, such as `7d`, at least `24h`.",
            absent="`orphan_grace` of the table's settings",
            metavar="DURATION",
            unit="duration",
        ),
    ] = None
    """Milliseconds."""
    dry_run: bool = False
    approved: Annotated[
        tuple[str, ...] | None,
        Option(
            "Keys",
            "With `--delete`: only these; an object with a foreign name goes in no other way.",
            metavar="KEY",
            flag="--key",
            form=False,
        ),
    ] = None
    """Keys that a person has seen and approved: of the orphans, these and no others. None: all
    but those with foreign names."""


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a check."""

    deep: Annotated[
        bool, Option("Deep", "Read the footer of every live part too: one request for each.")
    ] = False
    rows: Annotated[
        bool,
        Option(
            "Rows",
            "Read live parts as a whole; compare their rows with the digests of their markers, or "
            "try a merge of a part without: all bytes of the table, one request for each part.",
        ),
    ] = False
    sample: Annotated[
        int,
        Option(
            "Sample",
            "With rows: one part of this many, other ones each day, so that each has its turn "
            "within as many days.",
            metavar="N",
            least=1,
        ),
    ] = 1
    witness: Annotated[
        tuple[str, ...],
        Option(
            "Witness",
            "Lines that `firnline witness` printed before: the history has to hold these "
            "transactions. On the command line also a file with such lines, or `airflow`: the "
            "events on the table's asset in its database.",
            metavar="LINE|FILE|airflow",
        ),
    ] = ()


class RebuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a rebuild."""

    include: Annotated[
        tuple[str, ...],
        Option("Include", "Globs over keys or names: undecided parts that go in.", metavar="GLOB"),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Option("Exclude", "Globs over keys or names of objects that stay out.", metavar="GLOB"),
    ] = ()
    force: Annotated[
        bool,
        Option(
            "Force", "Also rebuild a log that reads and lacks nothing that a transaction names."
        ),
    ] = False
    revive: Annotated[
        bool, Option("Revive", "Bring back what transactions that are lost may have removed.")
    ] = False
    dry_run: DryRun = False


class CloneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a clone."""

    history: Annotated[
        bool,
        Option(
            "History",
            "Also copy dead parts, log and transactions: past states, restore, certificates.",
        ),
    ] = False
    dry_run: DryRun = False


class PropertiesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a change of properties."""

    dry_run: DryRun = False


class HoldOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a legal hold."""

    name: Annotated[
        str,
        Option("Name", "Name of the hold, as a case's number.", metavar="NAME", argument=True),
    ]
    where: Annotated[
        str | None,
        Option(
            "Rows",
            "SQL condition for the rows that are held; without it all rows of the partitions.",
            metavar="CONDITION",
        ),
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        Option(
            "Partitions",
            "Globs over partition paths, such as `day=2025-*`.",
            absent="all partitions",
            metavar="GLOB",
        ),
    ] = ()
    why: Annotated[str | None, Option("Reason", "Why; kept in the history.", metavar="TEXT")] = None
    by: Annotated[
        str | None,
        Option("By", "Who puts it; without it the user of this machine.", metavar="PERSON"),
    ] = None
    approved_by: Annotated[
        str | None,
        Option("Approved by", "Who has approved it, if somebody had to.", metavar="PERSON"),
    ] = None
    dry_run: DryRun = False


class EndHoldOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the end of a legal hold."""

    name: Annotated[
        str, Option("Name", "Name of the hold that ends.", metavar="NAME", argument=True)
    ]
    why: Annotated[
        str | None, Option("Reason", "Why it ends; kept in the history.", metavar="TEXT")
    ] = None
    dry_run: DryRun = False


class CommitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the commit of a prepared change."""

    id: str
    """Of the change."""


class DiscardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the discard of a prepared change."""

    id: str
    """Of the change."""
    why: str = "by hand"
    """The reason, for whoever asks for the change later."""


class RelocateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a relocation."""

    old: Annotated[
        str | None,
        Option(
            "Old place",
            "Key prefix or root URL of the old place; needed only where the log names objects of "
            "two places.",
            metavar="PREFIX",
            flag="--from",
        ),
    ] = None
    dry_run: DryRun = False


class DowngradeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a downgrade."""

    dry_run: DryRun = False


class DropTableOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a drop of a whole table."""

    name: Annotated[
        str | None,
        Option(
            "Name",
            "Exact name of the table, as the plan shows it; with `--yes` it has to be given.",
            metavar="NAME",
        ),
    ] = None
    with_foreign: Annotated[
        bool,
        Option(
            "With foreign objects",
            "Also delete objects below the root that firnline has not written. Another table below "
            "it never goes.",
        ),
    ] = False
    agreed: str | None = None
    """``DropTablePlan.agreed`` of the plan that was agreed to; None: any plan."""
    named_in: str | None = None
    """Settings file that names the table, for the page."""
    dry_run: DryRun = False


class ColumnFix(msgspec.Struct, frozen=True, kw_only=True):
    """The requested repair of one column; exactly one of ``type`` and ``rename``."""

    column: str
    type: str | None = None
    """Type for the parts that hold the column in another type, or in another spelling."""
    rename: str | None = None
    """New name of the column in parts that hold it in another type than most."""


class Evolution(msgspec.Struct, frozen=True, kw_only=True):
    """The requested changes of columns."""

    widen: Annotated[
        dict[str, str],
        Option("Widen", "Change the type of a column to a wider one.", metavar="COLUMN=TYPE"),
    ] = {}
    rename: Annotated[dict[str, str], Option("Rename", "Rename a column.", metavar="OLD=NEW")] = {}
    drop: Annotated[
        tuple[str, ...], Option("Drop", "Drop a column with its values.", metavar="COLUMN")
    ] = ()


class LazyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a change of columns that rewrites no part."""

    evolution: Evolution
    dry_run: bool = False


class SchemaFixOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a repair of the schema, and of a change of columns that rewrites parts."""

    fixes: tuple[ColumnFix, ...] = ()
    evolution: Evolution | None = None
    """Change columns without a conflict, instead of ``fixes``."""
    where_types: Annotated[
        tuple[str, ...],
        Option(
            "Where types",
            "Change only what has this type.",
            absent="all types but the one that is kept",
            metavar="TYPE",
            flag="--where-type",
        ),
    ] = ()
    all_parts: Annotated[
        bool,
        Option(
            "All parts",
            "Look at the footers of all live parts, also where the log states the right type.",
        ),
    ] = False
    leave_unreadable: Annotated[
        bool,
        Option(
            "Leave unreadable",
            "Leave parts that cannot be read as they are, and go on, instead of changing nothing.",
        ),
    ] = False
    dry_run: DryRun = False

    @property
    def op(self) -> str:
        """Name of the operation in the history."""
        return "schema-fix" if self.evolution is None else "evolve"

    @property
    def everywhere(self) -> bool:
        """True if the footers of all live parts are read."""
        return self.all_parts or self.evolution is not None
