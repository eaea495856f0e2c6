"""Sections of a table's settings: frozen models; every bound says its unit and why."""

from __future__ import annotations

import re
from typing import Annotated, Any
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
    """Frozen, and a key it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AppenderSettings(Section):
    """When a ``firnline.append.service.Appender`` writes what it was given."""

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
    """Appends."""

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
    """Physical deletion of what was replaced."""

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
    """A cache of the folded log, for tables whose log takes long to read."""

    min_parts: int | None = Field(
        default=50_000,
        ge=1,
        le=1_000_000_000,
        description="Parts, at least 1. A table of no more never writes a checkpoint; of a larger "
        "one a transaction writes one when more than this many markers are newer than the last, "
        "and every clean-up that deleted something. null: never.",
    )


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of the settings.

    Raises ValueError: it is none, or some name may keep it busy for hours.
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
    """Rows that go by their age."""

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
    """YAML reads ``true`` and ``4`` as no strings; Spark wants their text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class SparkSettings(Section):
    """Where Spark jobs run."""

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
                raise ValueError(f"{key!r} is no Spark setting; its name must begin with 'spark.'")
            if is_credential(key, value):
                raise ValueError(
                    f"{key!r} looks like a credential, and conf is passed in argument lists; "
                    "use the connection, the environment of the executors or a secret of the "
                    "cluster"
                )
        return self
