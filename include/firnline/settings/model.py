"""Settings of one table: a frozen model. docs/settings-reference.md is generated from it.

``firnline.settings.load`` loads it; each error found here becomes a line of a SettingsError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from firnline.errors import UsageError
from firnline.paths import Root, refuse_user
from firnline.settings.ages import LEAST_ORPHAN
from firnline.settings.airflow import AirflowSettings
from firnline.settings.fields import Duration, PartitionField, SortField, duration_between
from firnline.settings.imports import ImportSettings
from firnline.settings.launchers import SparkSettings
from firnline.settings.mirrors import DeltaMirror, IcebergMirror, Mirrors
from firnline.settings.notifiers import AlertSettings
from firnline.settings.sections import (
    ALL_OPERATIONS,
    AppendSettings,
    CheckpointSettings,
    CleanupSettings,
    ClusterSettings,
    Column,
    MergeSettings,
    Operation,
    OwnDags,
    RewriteSettings,
    Section,
    SweepSettings,
    TtlSettings,
    VerifySettings,
    compile_pattern,
)
from firnline.types.held import held
from firnline.types.sql import fold_name, parse_sql_type

TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""Names that fit an Airflow DAG id and a pool name, with room for ``rewrite_partitions__``.

They are also arguments of commands and segments of paths: one that begins with ``-`` would be an
option, and ``.`` and ``..`` are folders, as every name with a dot in front is hidden.
"""
TABLE_NAME_RULE = (
    "use letters, digits, '.', '_' and '-', at most 200 of them, with a letter, a digit or '_' in "
    "front"
)
"""The same as a next step."""

UserName = Annotated[str, Field(min_length=1, max_length=512)]
"""Name of an Airflow user, as in the user list."""


def name_from(root: str) -> str:
    """Return the table name that is closest to the folder of a root; empty if none is close."""
    folder = root.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder).lstrip("-.")[:200]


def _check_type(text: str) -> str:
    """Return a SQL type in its canonical form. Raises ValueError for what no part holds."""
    kind = parse_sql_type(text)
    if kind is None:
        raise ValueError(
            f"{text!r} is not a SQL type; write one as BIGINT, VARCHAR, TIMESTAMP, DECIMAL(18,2), "
            "VARCHAR[] or STRUCT(a BIGINT, b VARCHAR)"
        )
    kept = held(kind)
    if kept != kind:
        step = "no type of it fits" if kept is None else f"write {kept}"
        raise ValueError(f"no part holds {text!r} as it is; {step}")
    return str(kind)


SqlTypeText = Annotated[str, AfterValidator(_check_type)]
"""A SQL type, as DuckDB spells it."""


def _check_root(url: str) -> str:
    """Return a root URL without its trailing slash. Raises ValueError."""
    try:
        refuse_user(url, "root")
    except UsageError as error:
        raise ValueError(str(error)) from None
    if "?" in url or "#" in url:
        raise ValueError(f"{url!r} has a query or fragment; write only scheme, bucket and prefix")
    try:
        root = Root.parse(url)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if root.scheme in {"s3", "gs", "az"} and not root.prefix:
        raise ValueError(f"{url!r} is a whole bucket; write {url.rstrip('/')}/table")
    return url.rstrip("/")


class TableSettings(Section):
    """Settings of one table."""

    name: str = Field(
        pattern=rf"^{TABLE_NAME.pattern}$",
        description="Name of the table: its key in the settings file.",
    )
    root: Annotated[str, AfterValidator(_check_root)] = Field(
        description="Root URL of the table: `s3://bucket/prefix`, `gs://bucket/prefix`, "
        "`az://container/prefix`, `file:///folder` or `memory://name`; without credentials. "
        "Variables of the environment are expanded: `${NAME}`, `${NAME:-default}`."
    )
    connection_id: str | None = Field(
        default=None,
        min_length=1,
        description="Airflow connection with credentials and endpoint of the store, of type `aws` "
        "for `s3://`, `google_cloud_platform` for `gs://`, `wasb` or `adls` for `az://`; "
        "environment variables are expanded as in `root`. null: the usual chain of the store's "
        "cloud.",
    )
    partition_by: tuple[PartitionField, ...] = Field(
        default=(),
        description="Levels of the partition path: `column`, `year(ts)`, `month(ts)`, `day(ts)`, "
        '`hour(ts)` or `"bucket(16, column)"`, which a list of YAML splits without its quotes. A '
        "condition `column = value` reads one bucket.",
    )
    partition: str | None = Field(
        default=None,
        description="Instead of `partition_by`, for a table whose partition paths another client "
        "chose: a regular expression that they must match in full.",
    )
    sort_by: tuple[SortField, ...] = Field(
        default=(),
        description="Order of the rows in each part: `column` or `column desc`; nulls last. "
        "Left out: that of `primary_key`; `[]`: none.",
    )
    cluster_by: ClusterSettings | None = Field(
        default=None,
        description="Clustering of rows by merges: a list of columns, or a mapping. Not together "
        "with `primary_key`. null: none, a part holds rows that arrived together.",
    )
    columns: dict[Column, SqlTypeText] = Field(
        default={},
        description="Columns of a new table and their SQL types, such as "
        "`{id: BIGINT, ts: TIMESTAMP}`: the table has them before its first row, and rows are "
        "converted to these types. As soon as the table has columns, those are in force instead.",
    )
    primary_key: tuple[Column, ...] = Field(
        default=(), description="Columns of which merges keep one row for each value."
    )
    version: Column | None = Field(
        default=None,
        description="With `primary_key`: the row with the largest value in this column wins. "
        "null: the row that was inserted last.",
    )
    deleted: Column | None = Field(
        default=None,
        description="With `primary_key`: a BOOLEAN column. A row in which it is true is a key "
        "tombstone: it hides all earlier rows of its key and is not visible itself.",
    )
    deleted_keep: Annotated[Duration, duration_between("1h")] | None = Field(
        default=None,
        description="With `deleted` and `version`: how long after they were appended key "
        "tombstones are kept at least. A merge of a whole partition drops older ones, so no "
        "older version of a row may be appended later than that. null: they are kept. Without "
        "`version` they are dropped once `append.ttl` and `cleanup.grace` are over.",
    )
    locking: Literal["fenced", "pool-only"] = Field(
        default="fenced",
        description="`pool-only` is for a store that ignores create-only puts; only the Airflow "
        "pool then keeps two runs from losing each other's work.",
    )
    append: AppendSettings = AppendSettings()
    commit_ttl: Annotated[Duration, duration_between("1m", "1d")] = Field(
        default=21_600_000,
        description="Maximum age of the snapshot of a run that commits; an older run is refused. "
        "It stays well below the 7d for which transactions are kept.",
    )
    merge: MergeSettings = MergeSettings()
    cleanup: CleanupSettings = CleanupSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    ttl: TtlSettings | None = Field(
        default=None, description="Retention of rows. null: rows are kept for ever."
    )
    imports: ImportSettings | None = Field(
        default=None,
        alias="import",
        description="Folders that others keep writing, whose new files become rows of the table. "
        "null: only by hand, of a folder that the run names.",
    )
    orphan_grace: Annotated[Duration, duration_between(LEAST_ORPHAN, "365d")] = Field(
        default=259_200_000,
        description="Minimum age of an orphan, longer than `append.ttl` and `commit_ttl`: a "
        "younger object that no log file names may belong to an append or run still under way.",
    )
    deletes: Literal["eager", "lazy"] = Field(
        default="eager",
        description="`eager`: a delete rewrites the parts that hold matching rows in its own "
        "transaction; `lazy`: readers hide the rows until the next merge.",
    )
    statistics: tuple[Column, ...] = Field(
        default=(),
        description="Further columns whose bounds are kept in the log, beside those of "
        "partition, order, key and `ttl`: parts that a condition on them excludes are not read. "
        "`firnline analyze` fills them in for parts that are there already.",
    )
    mirror: Mirrors = Field(
        default=(),
        description="Formats in which other engines read the table: `delta`, `iceberg`."
        " Not with `primary_key`.",
    )
    rewrite: RewriteSettings = RewriteSettings()
    sweep: SweepSettings = SweepSettings()
    verify: VerifySettings = VerifySettings()
    operations: tuple[Operation, ...] = Field(
        default=ALL_OPERATIONS,
        description="Operations that can be run on this table in Airflow; `ttl` only where the "
        "table has a `ttl` section.",
    )
    own_dags: OwnDags = Field(
        default=(),
        description="Operations that get a DAG for this table alone, such as `merge__TABLE`, with "
        "a pause switch of its own: some of "
        "`merge`, `tombstone_cleanup`, `ttl`, `verify`, `rewrite_partitions` and, with an `import` "
        "section, `import`, or `all`. `merge__TABLE` also runs whenever the table's asset reports "
        "new rows, and `rewrite_partitions__TABLE` takes backfills. An operation with a schedule "
        "of its own has such a DAG in any case. All others run in one DAG for all tables, "
        "such as `merge`. Each DAG costs Airflow 3 CPU seconds an hour.",
    )
    person: tuple[Column, ...] | None = Field(
        default=None,
        description="Columns that identify a person together, by whose values requests of erasure "
        "(`erasure`) find their rows, such as `[customer_id]`. `[]`: the table has no rows of "
        "people. null: nobody has said so, and each request names the table as one not looked at.",
    )
    approvers: tuple[UserName, ...] | None = Field(
        default=None,
        description="Airflow users who alone may approve an erase, a sweep or a removal of "
        "partitions, and never of a run that they started. null: everybody who may edit the "
        "DAG.",
    )
    alerts: AlertSettings = AlertSettings()
    airflow: AirflowSettings = Field(
        default=AirflowSettings(),
        description="The table's own DAGs and, of the operators in your DAGs, its tasks. It goes "
        "before the section `airflow` at the top of the file.",
    )
    spark: SparkSettings = SparkSettings()

    @model_validator(mode="after")
    def _sort_by_key(self) -> TableSettings:
        if self.primary_key and "sort_by" not in self.model_fields_set:
            # Not as if it were set: a table that states its order keeps that.
            self.__dict__["sort_by"] = tuple(SortField(column=c) for c in self.primary_key)
        return self

    @model_validator(mode="after")
    def _check(self) -> TableSettings:
        self.check_together()
        self._check_slots()
        self._check_lazy_mirror()
        self._check_imports()
        self.spark.check_beside(self.root)
        return self

    def _check_slots(self) -> None:
        # Not of check_together: what a table's own properties say must not keep readers out.
        if self.merge.slots == 1:
            return
        several = f"merge.slots is {self.merge.slots}"
        if self.locking != "fenced":
            raise ValueError(
                f"{several}, and with locking: {self.locking} nothing but a pool of one slot "
                "keeps two merges from losing each other's work; set merge.slots to 1"
            )
        if not self.partition_by and self.partition is None:
            raise ValueError(
                f"{several}, and without partition_by or partition all merges would do the same "
                "work and one of them commit it; set merge.slots to 1"
            )

    def _check_imports(self) -> None:
        standing = self.imports is not None and self.imports.schedule is not None
        if standing and self.locking != "fenced":
            raise ValueError(
                f"import.schedule and locking: {self.locking} exclude each other: two imports "
                "could take the same files; write import: {schedule: null}"
            )

    def check_together(self) -> None:
        """Raise ValueError for settings that contradict each other."""
        if self.partition is not None:
            compile_pattern(self.partition)
            if self.partition_by:
                raise ValueError("partition and partition_by exclude each other; keep one")
        self._check_ttl()
        self._check_rows_ttl()
        _refuse_repeats("columns", list(self.columns))
        _refuse_repeats("partition_by", [field.label for field in self.partition_by])
        _refuse_repeats("sort_by", [field.column for field in self.sort_by])
        _refuse_repeats("primary_key", list(self.primary_key))
        _refuse_repeats("person", list(self.person or ()))
        if self.primary_key and not set(self.person or ()) <= set(self.primary_key):
            raise ValueError(
                "person has to name columns of primary_key: older rows of a key go with the one "
                "that readers see"
            )
        if self.approvers is not None:
            if not self.approvers:
                raise ValueError(
                    "approvers is empty, so nobody could approve anything; name at least one user"
                )
            if len(set(self.approvers)) < len(self.approvers):
                raise ValueError("approvers names a user twice; keep one")
        self._check_cluster()
        if self.version is not None and not self.primary_key:
            raise ValueError("version needs a primary_key")
        if self.version is not None and self.version in self.primary_key:
            raise ValueError("version is a column of primary_key; name another column")
        self._check_deleted()
        self._check_mirror()
        if self.orphan_grace <= max(self.append.ttl, self.commit_ttl):
            # The sweep must never delete parts of an append or run within its time to live.
            raise ValueError("orphan_grace must be longer than append.ttl and commit_ttl")

    def _check_cluster(self) -> None:
        cluster = self.cluster_by
        if cluster is None:
            return
        _refuse_repeats("cluster_by", list(cluster.columns))
        if self.primary_key:
            # The winning row of a key depends on insertion order, in which groups are contiguous.
            raise ValueError("cluster_by and primary_key exclude each other; keep one")
        bound, run = self.merge.max_bytes_per_run, cluster.run_bytes(self.merge.target_size)
        if bound is not None and bound < run:
            raise ValueError(
                f"merge.max_bytes_per_run is below the run_size of cluster_by ({run} bytes); one "
                "group could be larger than a run may read"
            )

    def _check_deleted(self) -> None:
        if self.deleted is None:
            if self.deleted_keep is not None:
                raise ValueError("deleted_keep needs deleted, the column of key tombstones")
            return
        if not self.primary_key:
            raise ValueError("deleted needs a primary_key")
        if self.deleted in (*self.primary_key, self.version):
            raise ValueError("deleted is a column of primary_key or version; name another column")
        if self.merge.sql is not None:
            raise ValueError("deleted and merge.sql exclude each other; keep one")

    def _check_mirror(self) -> None:
        _refuse_repeats("mirror", list(self.mirrors))
        if self.mirror and self.primary_key:
            # The rows of one key lie in several parts until a merge; other engines would show all.
            raise ValueError(
                "mirror and primary_key exclude each other: an engine that reads the parts would "
                "see every version of a key; leave mirror out"
            )

    def _check_lazy_mirror(self) -> None:
        # Not of check_together: the table does not state whether its mirror has vectors, and who
        # does not publish needs no setting for it.
        self._check_rows_mirror()
        if self.deletes == "lazy" and self.iceberg is not None:
            raise ValueError(
                "an Iceberg mirror and deletes: lazy exclude each other: the mirror would stand "
                "still until a merge after each delete; write deletes: eager"
            )
        if self.deletes == "lazy" and self.delta is not None and self.delta.deletes == "wait":
            raise ValueError(
                "mirror and deletes: lazy go together only with deletion vectors: without them the "
                "mirror would stand still until a merge after each delete; write mirror: "
                "[{delta: {deletes: vectors}}], or deletes: eager"
            )

    def _check_rows_mirror(self) -> None:
        waits = self.delta is not None and self.delta.deletes == "wait"
        if self.ttl is not None and self.ttl.rows and (waits or self.iceberg is not None):
            raise ValueError(
                "ttl.rows needs a mirror that can leave rows out, or none: this one would stand "
                "still until a merge after each run; write mirror: [{delta: {deletes: vectors}}], "
                "or ttl.rows: false"
            )

    def _check_rows_ttl(self) -> None:
        ttl = self.ttl
        if ttl is None or not ttl.rows or ttl.column is None:
            return
        if self.outside_key([ttl.column]):
            raise ValueError(
                "ttl.rows with a primary_key goes by a column of it, or by one that partition_by "
                "takes unchanged: by another it would hide the newest row of a key and bring an "
                "older one back; write ttl.rows: false"
            )

    def _check_ttl(self) -> None:
        times = [f for f in self.partition_by if f.transform in {"year", "month", "day", "hour"}]
        ttl = self.ttl
        if ttl is not None and ttl.partition is None and ttl.column is None and not times:
            raise ValueError(
                "ttl finds no time in these partitions; set ttl.partition or ttl.column, or "
                "partition_by year, month, day or hour of a column"
            )

    def outside_key(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return columns in which two rows of one key may differ; none without a primary key.

        Rows of one key agree in the columns of the key, and rows of one partition in the columns
        that partition_by takes unchanged.
        """
        if not self.primary_key:
            return ()
        same = {fold_name(name) for name in self.primary_key}
        same |= {fold_name(f.column) for f in self.partition_by if f.transform == "identity"}
        return tuple(name for name in columns if fold_name(name) not in same)

    @property
    def merge_pool(self) -> str:
        """Airflow pool of all operations that replace parts; it has ``merge.slots`` slots."""
        return f"{self.name}.merge"

    @property
    def cleanup_pool(self) -> str:
        """Airflow pool (one slot) of all operations that delete objects."""
        return f"{self.name}.cleanup"

    @property
    def statistics_columns(self) -> tuple[str, ...]:
        """Columns with bounds in the markers: those of layout, key, TTL, and ``statistics``."""
        names = [f.column for f in self.partition_by] + [f.column for f in self.sort_by]
        names += self.cluster_by.columns if self.cluster_by is not None else ()
        names += [*self.primary_key, *(c for c in (self.version, self.deleted) if c)]
        names += [self.ttl.column] if self.ttl is not None and self.ttl.column else []
        names += self.statistics
        return tuple(dict.fromkeys(names))

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Names of the formats in which the table is mirrored."""
        return tuple(each.name for each in self.mirror)

    @property
    def delta(self) -> DeltaMirror | None:
        """Settings of the Delta mirror; None without one."""
        return next((each.delta for each in self.mirror if each.delta is not None), None)

    @property
    def iceberg(self) -> IcebergMirror | None:
        """Settings of the Iceberg mirror; None without one."""
        return next((each.iceberg for each in self.mirror if each.iceberg is not None), None)

    @property
    def mirror_every(self) -> int | None:
        """Age in ms at which the planner of the fleet publishes a change; None: it does not."""
        return None if self.delta is None else self.delta.every

    @property
    def asset_uri(self) -> str:
        """URI of the Airflow asset of the table."""
        return self.root


def _refuse_repeats(field: str, names: list[str]) -> None:
    # DuckDB's column names ignore letter case.
    folded = [name.casefold() for name in names]
    for position, name in enumerate(folded):
        if name in folded[:position]:
            raise ValueError(f"{field} names {names[position]!r} twice; keep one")
