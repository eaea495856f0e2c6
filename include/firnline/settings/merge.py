"""How parts of a table are merged, and what the parts that merges write are like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from firnline.settings.sections import Schedule, Section
from firnline.units import Duration, Size, duration_between, size_between


class BloomFilterSettings(Section):
    """Which column chunks get a bloom filter, and how exact it is."""

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
    """``false`` is none, ``true`` the defaults."""
    if value is None or isinstance(value, dict | BloomFilterSettings):
        return value
    if isinstance(value, bool):
        return {} if value else None
    raise ValueError("must be true, false or a mapping of false_positives and max_distinct")


class MergeSettings(Section):
    """Merging small parts into large sorted ones."""

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
