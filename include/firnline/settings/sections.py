"""Sections of a table's settings: frozen models, the source of docs/settings-reference.md."""

from __future__ import annotations

import json
import re
import zlib
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from firnline.settings.cron import FLEET, check_planned_schedule, check_schedule
from firnline.settings.fields import Duration, Size, check_column, duration_between, size_between
from firnline.settings.pattern_cost import refuse_slow
from firnline.units import DAY_MS

Schedule = Annotated[str, AfterValidator(check_schedule)]
PlannedSchedule = Annotated[str, AfterValidator(check_planned_schedule)]
Column = Annotated[str, AfterValidator(check_column)]

_TTL_GROUPS = {"year", "month", "day", "hour"}

SPLIT_TARGETS = 2
"""``split_above`` as a multiple of ``target_size``, when it is not set."""

RUN_TARGETS = 8
"""``run_size`` as a multiple of ``target_size``, when it is not set."""
_MOST_COLUMNS = {"range": 8, "zorder": 4, "hash": 8}

Operation = Literal[
    "merge",
    "tombstone_cleanup",
    "ttl",
    "remove_partitions",
    "rewrite_partitions",
    "update_where",
    "delete_where",
    "replace",
    "import",
    "restore",
    "erase",
    "orphan_sweep",
    "verify",
    "rebuild",
]
"""Operation of a DAG: the part of its id before ``__``."""

ALL_OPERATIONS: tuple[Operation, ...] = Operation.__args__  # type: ignore[attr-defined] # typing's

OWN_DAGS: tuple[Operation, ...] = (
    "merge",
    "tombstone_cleanup",
    "ttl",
    "rewrite_partitions",
    "import",
    "verify",
)
"""Operations that can have a DAG for one table: those with a schedule or a data interval."""


class Section(BaseModel):
    """Base of the sections: frozen, and unknown keys are refused.

    A key that is a keyword of Python is the alias of its field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    @field_validator("*", mode="before")
    @classmethod
    def _flags_are_no_numbers(cls, value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - pydantic's
        """Refuse ``yes`` for a number, which pydantic would take for 1."""
        if isinstance(value, bool) and _is_number(cls.model_fields[info.field_name or ""]):
            raise ValueError(f"a number is wanted, and {'yes' if value else 'no'} is none")
        return value


def _is_number(field: FieldInfo) -> bool:
    kinds = {*(get_args(field.annotation) or (field.annotation,))} - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a section by the keys that a settings file has for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


class AppenderSettings(Section):
    """Limits at which a ``firnline.appends.service.Appender`` writes its buffered rows."""

    rows: int = Field(
        default=1_000_000,
        ge=1,
        description="Rows at which the open buffer is frozen and written.",
    )
    bytes: Annotated[Size, size_between("64KiB", "16GiB")] = Field(
        default=64 * 2**20,
        description="Size in memory, as Arrow holds the rows, at which the open buffer is frozen "
        "and written.",
    )
    age: Annotated[Duration, duration_between("10ms", "1h")] = Field(
        default=2_000,
        description="Time after its first row at which the open buffer is frozen and written, so "
        "that no row waits longer for its write.",
    )
    frozen: int = Field(
        default=2,
        ge=1,
        le=1_000,
        description="Maximum number of frozen buffers that wait or are being written. Beyond it "
        "an append waits or is refused. Memory is that of one buffer more.",
    )


class AppendSettings(Section):
    """Appending rows."""

    ttl: Annotated[Duration, duration_between("1m", "7d")] = Field(
        default=21_600_000,
        description="Maximum time from reading the history to publishing; an append that takes "
        "longer is refused. A delete record may be dropped after this time and `cleanup.grace`.",
    )
    once: Annotated[Duration, duration_between("1h", "365d")] = Field(
        default=604_800_000,
        description="How long an append with a key is remembered at least: the same key again "
        "adds nothing. Each key is a line of 100 bytes in the log for this time, and an object "
        "that the clean-up deletes.",
    )
    part_bytes: Annotated[Size, size_between("1MiB", "64GiB")] = Field(
        default=256 * 2**20,
        description="Size near which an append closes a part and begins the next.",
    )
    buffer: Annotated[Size, size_between("16MiB")] = Field(
        default=512 * 2**20,
        description="Memory for rows of open parts, all partitions together. When it is "
        "exceeded, the largest open part is closed.",
    )
    service: AppenderSettings = Field(
        default=AppenderSettings(),
        description="Limits at which the Appender of a long-running service writes its rows.",
    )


class PlannedSection(Section):
    """An operation that the planner of the fleet starts, unless it has a clock of its own."""

    schedule: PlannedSchedule | None = Field(default=FLEET)

    @property
    def by_fleet(self) -> bool:
        """True if the planner of the fleet starts the operation."""
        return self.schedule == FLEET

    @property
    def cron(self) -> str | None:
        """Schedule of the table's own DAG; None if it has none."""
        return None if self.by_fleet else self.schedule


class CleanupSettings(PlannedSection):
    """Deletion of the objects of replaced and dropped parts, and of folded log files."""

    schedule: PlannedSchedule | None = Field(
        default=FLEET,
        description="`fleet`: the planner of the fleet starts the clean-up DAG once a day, if "
        "there is something to delete. A schedule: the DAG runs by it in any case. "
        "null: only by hand.",
    )
    grace: Annotated[Duration, duration_between("1s", "365d")] = Field(
        default=86_400_000,
        description="How long a reader may go on using its snapshot after a part of it was "
        "replaced; until then nothing is deleted. Set it well above the duration of the longest "
        "query.",
    )
    max_deletes_per_run: int = Field(
        default=1_000_000,
        ge=1_000,
        description="Maximum number of objects that one run deletes; the rest waits for the next "
        "run. 1000 objects are one batch.",
    )
    deletes_per_second: int = Field(
        default=3_000,
        ge=1,
        description="Maximum number of objects that a run deletes per second; the whole table "
        "counts as one prefix. S3 takes 3,500 a second for each range of keys and throttles all "
        "clients of a range above it. Where the store asks to slow down, a run halves its rate "
        "and raises it again as soon as it may.",
    )


class CheckpointSettings(Section):
    """Checkpoints, a cache of the folded log for tables whose log takes long to read."""

    min_parts: int | None = Field(
        default=50_000,
        ge=1,
        le=1_000_000_000,
        description="Parts, dead ones included, up to which a table has no checkpoint. In a larger "
        "table a transaction writes one when more than this many markers are newer than the last "
        "checkpoint, and so does every clean-up that deleted something. null: no checkpoints.",
    )


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression of the settings.

    Raises ValueError: it is invalid, or matching some name may take hours.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:200]!r} is not a regular expression: {error}") from None
    refuse_slow(pattern)
    return compiled


def check_zone(name: str) -> None:
    """Raise ValueError unless this is the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not an IANA time zone such as Europe/Berlin") from None


class TtlSettings(PlannedSection):
    """Dropping rows by their age."""

    keep: Annotated[Duration, duration_between("1h")] = Field(
        description="Retention. A partition is dropped when its whole time span is older."
    )
    partition: str | None = Field(
        default=None,
        description="Regular expression that reads the time from the partition path; its groups "
        r"are named year, month, day or hour: `d=(?P<day>\d{4}-\d{2}-\d{2})`. Not together with "
        "`ttl.column`.",
    )
    column: Column | None = Field(
        default=None,
        description="Time column that decides instead of the partition: a part is dropped when "
        "its statistics prove every row older.",
    )
    rows: bool = Field(
        default=False,
        description="Also rows of parts that hold younger ones: each run hides them from readers, "
        "to the hour, and merges remove them. Needs `ttl.column`, with a `primary_key` one of it.",
    )
    merged_within: Annotated[Duration, duration_between("0", "365d")] = Field(
        default=7 * DAY_MS,
        description="With `ttl.rows`: a merge rewrites a part for hidden rows alone when they have "
        "been hidden for so long. A shorter time rewrites more bytes.",
    )
    time_zone: str = Field(
        default="UTC",
        description="IANA name of the time zone of a day in partition paths, and of times in a "
        "column without a zone.",
    )
    max_removed_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Maximum fraction of the table's rows that one run removes without `force`, or "
        "an approval in its DAG: a wrong unit or column makes everything look old. Of a table with "
        "parts that do not state their rows, the fraction of its bytes.",
    )
    schedule: PlannedSchedule | None = Field(
        default=FLEET,
        description="`fleet`: the planner of the fleet starts the TTL DAG once a day, if something "
        "is past its time to live. A schedule: the DAG runs by it in any case. null: "
        "only by hand.",
    )

    @model_validator(mode="after")
    def _check(self) -> TtlSettings:
        if self.partition is not None and self.column is not None:
            raise ValueError("partition and column exclude each other; keep one")
        if self.rows and self.column is None:
            raise ValueError("rows needs column, the time of a row")
        check_zone(self.time_zone)
        if (
            self.partition is not None
            and not set(compile_pattern(self.partition).groupindex) & _TTL_GROUPS
        ):
            raise ValueError("partition has no group named year, month, day or hour")
        return self


class BloomFilterSettings(Section):
    """Column chunks that get a bloom filter, and its precision."""

    false_positives: float = Field(
        default=0.01,
        ge=0.00001,
        le=0.5,
        description="Fraction of the absent values that a filter does not exclude. A smaller "
        "fraction takes more bytes.",
    )
    max_distinct: int | None = Field(
        default=None,
        ge=1,
        le=134_217_728,
        description="Maximum number of distinct values in a row group for a column to get a "
        "dictionary and a filter there: at least a fifth of `merge.row_group_rows`; more than "
        "`merge.row_group_rows` includes every column. null: a fifth of the rows of the row "
        "group.",
    )


def _switched(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    """Convert ``false`` to no filters and ``true`` to the defaults."""
    if value is None or isinstance(value, dict | BloomFilterSettings):
        return value
    if isinstance(value, bool):
        return {} if value else None
    raise ValueError("must be true, false or a mapping of false_positives and max_distinct")


class MergeSettings(PlannedSection):
    """Merges of small parts into large sorted ones."""

    schedule: PlannedSchedule | None = Field(
        default=FLEET,
        description="`fleet`: the planner of the fleet starts the merge DAG whenever there is "
        "something to do. A schedule: the DAG runs by it in any case. null: only by "
        "events of the table's asset or by hand, which start it in any case.",
    )
    min_inputs: int = Field(
        default=4,
        ge=2,
        le=100_000,
        description="Minimum number of small parts in a group. A smaller group waits: rewriting "
        "a part costs its bytes, and only the number of parts it saves pays for that.",
    )
    target_size: Annotated[Size, size_between("1MiB", "64GiB")] = Field(
        default=512 * 2**20,
        description="Size up to which parts are merged. Parts below 3/4 of it count as small; "
        "256MiB to 1GiB suits most readers.",
    )
    target_rows: int | None = Field(
        default=None,
        ge=2_048,
        le=2**40,
        description="Rows up to which parts are merged, beside `merge.target_size`: a part is full "
        "by whichever it reaches first. For readers whose memory or parallelism goes by rows. "
        "null: only bytes count.",
    )
    finish_after: Annotated[Duration, duration_between("1h", "365d")] | None = Field(
        default=172_800_000,
        description="Time without an append after which a partition is brought to the fewest "
        "parts, whatever `merge.min_inputs` says. Late rows restart the wait: it then lasts as "
        "long as the age of the partition when they arrived. Set it above the time by which "
        "most rows of a partition have arrived. null: a group that is too small waits for ever.",
    )
    max_bytes_per_run: Annotated[Size, size_between("1MiB")] | None = Field(
        default=None,
        description="Maximum bytes that one run reads, at least `merge.target_size`; the rest "
        "waits for the next run. null: unlimited.",
    )
    max_parts_per_group: int = Field(
        default=2_000,
        ge=2,
        le=100_000,
        description="Maximum number of parts in a group, at least `merge.min_inputs`. All inputs "
        "of a group are open files on the executor's local disk at the same time.",
    )
    split_above: Annotated[Size, size_between("1MiB")] | None = Field(
        default=None,
        description="Size of a group above which several tasks merge it, each about this much: key "
        "ranges of the first column of `cluster_by` (method `range`) or `sort_by`, or of the "
        "columns of a z-order, where the statistics of row groups tell them apart. Groups of hash "
        "clusters are one task. Set below `merge.target_size`, a sorted group becomes several "
        "parts that count as one in later plans. null: 2 x `merge.target_size`, so that only "
        "clustered groups are split.",
    )
    order: Literal["fragmented", "recent", "oldest"] = Field(
        default="fragmented",
        description="Groups that come first when a run is limited: `fragmented` takes those that "
        "save most parts per byte, `recent` those with the newest rows, `oldest` those with the "
        "oldest.",
    )
    settle: Annotated[Duration, duration_between("0", "365d")] = Field(
        default=0,
        description="Minimum age of a part to be merged, so that the newest data of a table is "
        "not rewritten over and over.",
    )
    settle_max_parts: int = Field(
        default=200,
        ge=1,
        description="Parts younger than `merge.settle` in a partition above which they are "
        "merged without waiting.",
    )
    kernel_memory: Annotated[Size, size_between("128MiB")] = Field(
        default=2 * 2**30,
        description="Memory of one task of a merge, delete, rewrite or replace; larger groups "
        "spill to local disk. The kernel cannot sort in less than 128MiB.",
    )
    kernel_threads: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Threads of one task of a merge, delete or rewrite. In Spark a task "
        "takes as many cores, unless `spark.conf` sets `spark.task.cpus`. The local engine also "
        "lends a task the cores that no other needs.",
    )
    commit_every: Annotated[Duration, duration_between("0", "1h")] = Field(
        default=10_000,
        description="Groups completed within this time share one transaction. Groups that are "
        "not committed are lost when the run is killed.",
    )
    compression_level: int = Field(
        default=3,
        ge=1,
        le=22,
        description="Compression level (zstd) of all parts, those of appends included; 3 is the "
        "default of zstd.",
    )
    row_group_rows: int = Field(
        default=1_048_576,
        ge=2_048,
        le=134_217_728,
        description="Rows of a row group in all parts, those of appends included: the unit in "
        "which readers prune and parallelise. 2048 is the vector size of DuckDB.",
    )
    bloom_filters: Annotated[BloomFilterSettings | None, BeforeValidator(_switched)] = Field(
        default=BloomFilterSettings(),
        description="Bloom filters in the parts that merges and rewrites write: `false` for "
        "none, `true` for the defaults, or a mapping.",
    )
    max_replans: int = Field(
        default=3,
        ge=0,
        le=100,
        description="Maximum number of times that a run plans again after losing a commit to a "
        "concurrent run.",
    )
    slots: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Merges of the table that may work at the same time, on different partitions: "
        "slots of its pool `TABLE.merge` in Airflow. Every other operation that replaces parts "
        "takes all of them, so it waits for the merges and they for it. After a change the pools "
        "have to be imported again. Needs `locking: fenced` and partitions.",
    )
    proof: Literal["rows", "sample", "counts"] = Field(
        default="rows",
        description="What has to hold before the output of a merge, delete, rewrite or repartition "
        "is committed. `rows`: outputs are read back, and digests show that they hold each row of "
        "the inputs once, without those that go. `sample`: that for one group of eight. `counts`: "
        "the numbers of rows only.",
    )
    sql: str | None = Field(
        default=None,
        min_length=1,
        description="Query in DuckDB's dialect over `source_files` that makes the rows of a "
        "merged part (aggregating and replacing merges). Columns and types must stay. null: the "
        "rows as they are.",
    )

    @property
    def split_bytes(self) -> int:
        """Bytes of a group above which it is split."""
        return SPLIT_TARGETS * self.target_size if self.split_above is None else self.split_above

    @model_validator(mode="after")
    def _check(self) -> MergeSettings:
        if self.max_parts_per_group < self.min_inputs:
            raise ValueError(
                "max_parts_per_group is below min_inputs, so nothing would ever be merged; "
                f"set at least {self.min_inputs}"
            )
        if self.max_bytes_per_run is not None and self.max_bytes_per_run < self.target_size:
            raise ValueError(
                "max_bytes_per_run is below target_size; a run could not fill one part"
            )
        most = self.bloom_filters.max_distinct if self.bloom_filters is not None else None
        least = self.row_group_rows // 5
        if most is not None and most < least:
            raise ValueError(
                f"bloom_filters.max_distinct is below a fifth of row_group_rows ({least}), which "
                "is the limit without it; set more, or null"
            )
        return self


class ClusterSettings(Section):
    """Clustering of rows by merges; appends do not cluster."""

    columns: tuple[Column, ...] = Field(
        min_length=1,
        description="Columns, the most important first: 1 to 8, for `zorder` 2 to 4.",
    )
    method: Literal["range", "zorder", "hash"] = Field(
        default="range",
        description="`range`: by the first column, then the next; `zorder`: by all columns "
        "alike; `hash`: rows with equal values together, in no order.",
    )
    run_size: Annotated[Size, size_between("1MiB", "1TiB")] | None = Field(
        default=None,
        description="Size of a run, that is parts that were clustered together: from 3/4 of it "
        "on they are not rewritten any more. At least `merge.target_size`. One merge task needs "
        "about three times as much local disk. null: 8 x `merge.target_size`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
        return {"columns": value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _check(self) -> ClusterSettings:
        most = _MOST_COLUMNS[self.method]
        if len(self.columns) > most:
            raise ValueError(f"method {self.method} takes at most {most} columns")
        if self.method == "zorder" and len(self.columns) == 1:
            raise ValueError("zorder needs at least 2 columns; for one column use range")
        return self

    @property
    def mark(self) -> str:
        """Eight characters that identify method and columns, to tell other clusterings apart."""
        text = json.dumps([self.method, *self.columns])
        return f"{zlib.crc32(text.encode()):08x}"

    def run_bytes(self, target: int) -> int:
        """Return the bytes up to which runs are merged.

        Args:
            target: ``merge.target_size``, bytes.
        """
        return RUN_TARGETS * target if self.run_size is None else max(self.run_size, target)


def _own_dags(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    if value == "all":
        return list(OWN_DAGS)
    given = value if isinstance(value, list) else []
    if others := [each for each in given if each in ALL_OPERATIONS and each not in OWN_DAGS]:
        raise ValueError(
            f"{others[0]} runs in one DAG for all tables; allowed are {', '.join(OWN_DAGS)}"
        )
    return value


OwnDags = Annotated[tuple[Operation, ...], BeforeValidator(_own_dags)]
"""A list of operations, or ``all``."""


class RewriteSettings(Section):
    """Rewrites of partitions by a filter or a query."""

    max_removed_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Maximum fraction of a partition's rows that a rewrite removes without "
        "`force`: protects against a filter that was meant the other way round.",
    )
    time_limit: Annotated[Duration, duration_between("1s", "1d")] = Field(
        default=3_600_000,
        description="Maximum duration of a user's query, `merge.sql` included, on one group.",
    )
    beside_merges: bool = Field(
        default=False,
        description="With `merge.slots` above 1: in Airflow runs of `rewrite_partitions`, "
        "`update_where` and `replace` take one slot of the table's pool instead of all, so that "
        "they run beside each other and beside merges. Two that want the same parts exclude each "
        "other in the commit: one of them plans again, or fails if somebody has approved what it "
        "prepared.",
    )


class SweepSettings(Section):
    """Search for orphans: objects that no log file names."""

    schedule: Schedule | None = Field(
        default=None,
        description="Schedule of the orphan sweep DAG, which lists orphans; their deletion is "
        "approved by hand. null: only by hand.",
    )


class VerifySettings(PlannedSection):
    """Comparing the log with the objects in the store."""

    schedule: PlannedSchedule | None = Field(
        default=FLEET,
        description="`fleet`: the planner of the fleet starts the verify DAG once a week if the "
        "table has changed since, and every fourth week in any case. A schedule: the DAG runs by "
        "it. null: only by hand.",
    )
