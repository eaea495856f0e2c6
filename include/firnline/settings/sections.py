"""Sections of a table's settings: frozen models; every bound states its unit and its reason."""

from __future__ import annotations

import json
import re
import zlib
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from firnline.settings.cron import check_schedule
from firnline.settings.fields import check_column
from firnline.settings.pattern_cost import refuse_slow
from firnline.settings.spark_conf import is_credential
from firnline.units import Duration, Size, duration_between, size_between

Schedule = Annotated[str, AfterValidator(check_schedule)]
Column = Annotated[str, AfterValidator(check_column)]


class Section(BaseModel):
    """Base of the sections: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AppenderSettings(Section):
    """Limits at which a ``firnline.append.service.Appender`` writes its buffers."""

    rows: int = Field(
        default=1_000_000,
        ge=1,
        description="Rows. An open buffer with this many is frozen and written.",
    )
    bytes: Annotated[Size, size_between("64KiB", "16GiB")] = Field(
        default=64 * 2**20,
        description="Size, at least 64KiB, of rows in memory as Arrow holds them. An open buffer "
        "of this size is frozen and written.",
    )
    age: Annotated[Duration, duration_between("10ms", "1h")] = Field(
        default=2_000,
        description="Duration, 10ms to 1h. An open buffer is frozen and written this long after "
        "its first row, so that no row waits longer to be visible.",
    )
    frozen: int = Field(
        default=2,
        ge=1,
        le=1_000,
        description="Buffers. So many wait or are being written at most; then an append waits, or "
        "is refused. Memory is that of one buffer more.",
    )


class AppendSettings(Section):
    """Settings of appends."""

    ttl: Annotated[Duration, duration_between("1m", "7d")] = Field(
        default=21_600_000,
        description="Duration, 1m to 7d. An append that takes longer since it looked at the "
        "history refuses to publish: a delete record may be dropped after this and the grace.",
    )
    part_bytes: Annotated[Size, size_between("1MiB", "64GiB")] = Field(
        default=256 * 2**20,
        description="Size, at least 1MiB. An append closes a part near this size.",
    )
    buffer: Annotated[Size, size_between("16MiB")] = Field(
        default=512 * 2**20,
        description="Size, at least 16MiB. Rows of open parts kept in memory, all partitions "
        "together; the largest part is closed when it is exceeded.",
    )
    service: AppenderSettings = Field(
        default=AppenderSettings(), description="When a service's Appender writes its rows."
    )


class CleanupSettings(Section):
    """Deletion of the objects of dead parts and folded log files."""

    schedule: Schedule | None = Field(
        default="@daily", description="Cron (UTC) or preset; null: by hand."
    )
    grace: Annotated[Duration, duration_between("1s", "365d")] = Field(
        default=86_400_000,
        description="Duration, above 0. A reader may use its snapshot this long after a part was "
        "replaced; set it well above the longest query.",
    )
    max_deletes_per_run: int = Field(
        default=1_000_000,
        ge=1_000,
        description="Objects, at least 1000 (one batch). The rest waits for the next run.",
    )
    deletes_per_second: int = Field(
        default=3_000,
        ge=1,
        description="Objects a second on average. Object stores slow down everybody on a prefix "
        "that is deleted from too fast.",
    )


class CheckpointSettings(Section):
    """Checkpoints: a cache of the folded log, for tables with a large log."""

    min_parts: int | None = Field(
        default=50_000,
        ge=1,
        le=1_000_000_000,
        description="Parts, at least 1. A table of no more never writes a checkpoint; of a larger "
        "one a transaction writes one when more than this many markers are newer than the last, "
        "and every clean-up that deleted something. null: never.",
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


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not an IANA time zone such as Europe/Berlin") from None


_TTL_GROUPS = {"year", "month", "day", "hour"}


class TtlSettings(Section):
    """Removal of rows by their age."""

    keep: Annotated[Duration, duration_between("1h")] = Field(
        description="Duration, at least 1h. A partition goes when its whole span is older."
    )
    partition: str | None = Field(
        default=None,
        description="Regular expression with groups named year, month, day or hour that reads the "
        r"time from the partition, such as d=(?P<day>\d{4}-\d{2}-\d{2}).",
    )
    column: Column | None = Field(
        default=None,
        description="Time column; a part goes when its statistics prove every row older.",
    )
    time_zone: str = Field(
        default="UTC",
        description="IANA name. What a partition's directory means by a day, and what a column "
        "without a zone means by a time.",
    )
    schedule: Schedule | None = Field(
        default="@daily", description="Cron (UTC) or preset; null: by hand."
    )

    @model_validator(mode="after")
    def _check(self) -> TtlSettings:
        if self.partition is not None and self.column is not None:
            raise ValueError("partition and column exclude each other; keep one")
        _check_zone(self.time_zone)
        if (
            self.partition is not None
            and not set(compile_pattern(self.partition).groupindex) & _TTL_GROUPS
        ):
            raise ValueError("partition has no group named year, month, day or hour")
        return self


def conf_text(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    """Return a value as text: YAML reads ``true`` and ``4`` as other types, Spark needs strings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class SparkSettings(Section):
    """Connection and configuration of Spark jobs."""

    conn_id: str = Field(
        default="spark_default", min_length=1, description="Airflow Spark connection."
    )
    conf: dict[str, Annotated[str, BeforeValidator(conf_text)]] = Field(
        default_factory=dict,
        description="Spark configuration. Not for credentials: it ends up in argument lists.",
    )

    @model_validator(mode="after")
    def _check(self) -> SparkSettings:
        for key, value in self.conf.items():
            if not key.startswith("spark."):
                raise ValueError(f"{key!r} is not a Spark setting; it must begin with 'spark.'")
            if is_credential(key, value):
                raise ValueError(
                    f"{key!r} looks like a credential, and conf is passed in argument lists; "
                    "use the connection, the environment of the executors or a secret of the "
                    "cluster"
                )
        return self


class BloomFilterSettings(Section):
    """Selection of column chunks that get a bloom filter, and its precision."""

    false_positives: float = Field(
        default=0.01,
        ge=0.00001,
        le=0.5,
        description="Part of the absent values that a filter does not exclude, 0.00001 to 0.5. "
        "Less of them costs more bytes.",
    )
    max_distinct: int | None = Field(
        default=None,
        ge=1,
        le=134_217_728,
        description="Distinct values, at least a fifth of row_group_rows. A column with more of "
        "them in a row group has neither a dictionary nor a filter there; more than row_group_rows "
        "is every column. null: a fifth of the row group's rows.",
    )


def _switched(value: Any) -> Any:  # noqa: ANN401 - pydantic gives what the file holds
    """Convert ``false`` to no filters and ``true`` to the defaults."""
    if value is None or isinstance(value, dict | BloomFilterSettings):
        return value
    if isinstance(value, bool):
        return {} if value else None
    raise ValueError("must be true, false or a mapping of false_positives and max_distinct")


class MergeSettings(Section):
    """Merges of small parts into large sorted ones."""

    schedule: Schedule | None = Field(
        default="@hourly", description="Cron (UTC) or preset; null: only by event or by hand."
    )
    min_inputs: int = Field(
        default=4,
        ge=2,
        le=100_000,
        description="Parts, at least 2. A group of fewer small parts waits: rewriting a part costs "
        "its bytes, and only the number of parts it saves pays for that.",
    )
    target_size: Annotated[Size, size_between("1MiB", "64GiB")] = Field(
        default=512 * 2**20,
        description="Size, 1MiB to 64GiB. Parts below 3/4 of it are merged up to it; 256MiB to "
        "1GiB suits most readers.",
    )
    max_bytes_per_run: Annotated[Size, size_between("1MiB")] | None = Field(
        default=None,
        description="Size, at least target_size. Bytes read by one run; the rest waits for the "
        "next. null: no bound.",
    )
    max_parts_per_group: int = Field(
        default=2_000,
        ge=2,
        le=100_000,
        description="Parts, at least min_inputs. All inputs of a group are files open at once on "
        "the executor's local disk.",
    )
    order: Literal["fragmented", "recent", "oldest"] = Field(
        default="fragmented",
        description="Which groups come first when a run is bounded: most parts saved per byte, or "
        "newest or oldest rows.",
    )
    settle: Annotated[Duration, duration_between("0", "365d")] = Field(
        default=0,
        description="Duration. Parts younger than this wait, so that the hot end of a table is not "
        "rewritten over and over.",
    )
    settle_max_parts: int = Field(
        default=200,
        ge=1,
        description="Parts. More unsettled parts than this in a partition do not wait.",
    )
    kernel_memory: Annotated[Size, size_between("128MiB")] = Field(
        default=2 * 2**30,
        description="Size, at least 128MiB (the kernel cannot sort in less). Memory of one merge "
        "task; larger groups spill to local disk.",
    )
    kernel_threads: int = Field(
        default=1, ge=1, le=256, description="Threads of one merge task; match spark.task.cpus."
    )
    commit_every: Annotated[Duration, duration_between("0", "1h")] = Field(
        default=10_000,
        description="Duration, at most 1h. Groups completed within it share one transaction; what "
        "is not committed is lost when the run is killed.",
    )
    compression_level: int = Field(
        default=3, ge=1, le=22, description="zstd level; 3 is zstd's own default."
    )
    row_group_rows: int = Field(
        default=1_048_576,
        ge=2_048,
        le=134_217_728,
        description="Rows of a row group, at least 2048 (DuckDB's vector). Readers prune and "
        "parallelise by row group.",
    )
    bloom_filters: Annotated[BloomFilterSettings | None, BeforeValidator(_switched)] = Field(
        default=BloomFilterSettings(),
        description="Parquet's bloom filters in the parts that merges and rewrites write: false "
        "for none, or false_positives and max_distinct.",
    )
    max_replans: int = Field(
        default=3,
        ge=0,
        le=100,
        description="How often a run plans again after it lost a commit to a rival.",
    )
    sql: str | None = Field(
        default=None,
        min_length=1,
        description="Query in DuckDB's dialect over source_files that makes the rows of a merged "
        "part (aggregating, replacing merges); columns and types must stay. null: the rows as they "
        "are.",
    )

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
        self._check_bloom_filters()
        return self

    def _check_bloom_filters(self) -> None:
        wanted = self.bloom_filters.max_distinct if self.bloom_filters is not None else None
        least = self.row_group_rows // 5
        if wanted is not None and wanted < least:
            raise ValueError(
                f"bloom_filters.max_distinct is below a fifth of row_group_rows ({least}), which "
                "is the limit without it; set more, or null"
            )


RUN_TARGETS = 8
"""``run_size`` as a multiple of ``target_size``, when it is not set."""
_MOST_COLUMNS = {"range": 8, "zorder": 4, "hash": 8}


class ClusterSettings(Section):
    """Clustering of rows, which only merges do; appends write rows in the order given."""

    columns: tuple[Column, ...] = Field(
        min_length=1,
        description="Columns, the most important first: 1 to 8, for zorder 2 to 4.",
    )
    method: Literal["range", "zorder", "hash"] = Field(
        default="range",
        description="range: by the first column, then the next; zorder: by all columns alike; "
        "hash: rows with equal values together, in no order.",
    )
    run_size: Annotated[Size, size_between("1MiB", "1TiB")] | None = Field(
        default=None,
        description="Size, at least target_size. Parts that were clustered together (a run) are "
        "not rewritten any more from 3/4 of it; one merge task needs about three times as much "
        "local disk. null: 8 x target_size.",
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


Operation = Literal[
    "merge",
    "tombstone_cleanup",
    "ttl",
    "remove_partitions",
    "rewrite_partitions",
    "delete_where",
    "replace",
    "restore",
    "erase",
    "orphan_sweep",
    "verify",
    "rebuild",
]
"""What a DAG exists for: the part of its id before ``__``."""

ALL_OPERATIONS: tuple[Operation, ...] = Operation.__args__  # type: ignore[attr-defined] # typing's


class RewriteSettings(Section):
    """Rewrites of partitions by a filter or a query."""

    max_removed_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Part of a partition's rows, 0 to 1. A rewrite that would remove more of a "
        "partition needs force: a filter that was meant the other way round does.",
    )
    time_limit: Annotated[Duration, duration_between("1s", "1d")] = Field(
        default=3_600_000,
        description="Duration, 1s to 1d. How long a user's query may run on one group.",
    )


class SweepSettings(Section):
    """Deletion of orphans: objects that no log file names."""

    schedule: Schedule | None = Field(
        default=None,
        description="Cron (UTC) or preset for the list of orphans; deleting them is approved by "
        "hand. null: by hand.",
    )


class VerifySettings(Section):
    """Comparison of the log with the objects in the store."""

    schedule: Schedule | None = Field(
        default="@weekly", description="Cron (UTC) or preset; null: by hand."
    )


class AlertSettings(Section):
    """Alerts about runs that fail or are late."""

    notifier: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$",
        description="Dotted path of an Airflow notifier class (or a callback), called when a run's "
        "task failed for good; null: nobody.",
    )
    arguments: dict[str, str] = Field(
        default_factory=dict, description="Keyword arguments of the notifier class."
    )
    merge_deadline: Annotated[Duration, duration_between("1m", "365d")] | None = Field(
        default=None,
        description="Duration. A merge run that has not ended this long after it was due raises a "
        "deadline alert; null: none.",
    )
