"""The visible rows of parts, read by Spark's own Parquet reader from their paths.

Parts that differ in what has to be done to their rows are read apart and put together: those with
deletes that wait for a merge, and those from before a schema change.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType

from firnline.errors import EnvironmentFaultError, FirnlineError, PartGoneError, UsageError
from firnline.kernel.visibility import rank_in_key, stays
from firnline.next_steps import READ_AGAIN
from firnline.predicate.tree import Predicate, to_sql
from firnline.read.plan import ReadPlan
from firnline.read.task import ReadPart
from firnline.spark.format.sql import SPARK, quote_column
from firnline.spark.format.stored import Stored, stored
from firnline.spark.tasks import is_connect
from firnline.spark.versions import part_metadata
from firnline.types.sql import free_name

_OPTIONS = {
    # A part is what the log says: its path adds no column, and is no pattern.
    "recursiveFileLookup": "true",
    "__globPaths__": "false",
    # Fewer rows without an error are never right, whatever the session's settings are.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Dates before 1582 as they are stored.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Names of files that Spark reports unchanged; others it encodes."""
_LEFT_OUT = re.compile(r"[.](?s:.*)|_[^=]*|(?s:.*)\._COPYING_")
"""Names of files that Spark takes for temporary ones and leaves out, without an error."""
_NO_FILE_SYSTEM = re.compile(
    r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.|No FileSystem for scheme"
)


@dataclass(frozen=True)
class PartRows:
    """The read of a plan."""

    spark: SparkSession
    plan: ReadPlan
    base: str
    """Prefix that makes a path of the key of a part."""
    options: Mapping[str, str]
    """Of the file system of ``base``."""
    forms: Mapping[str, Stored]
    """The columns that are read, in the table's order."""
    place: Place

    @classmethod
    def of(
        cls, spark: SparkSession, plan: ReadPlan, base: str, options: Mapping[str, str]
    ) -> PartRows:
        """Return the read of a plan. Raises UsageError if Spark cannot read a column."""
        forms = {name: stored(name, kind) for name, kind in plan.task.needed}
        return cls(spark, plan, base, options, forms, Place.beside(forms))

    def frame(self) -> DataFrame:
        """Return the columns of the plan.

        Raises EnvironmentFaultError, PartGoneError, UsageError: see ``firnline.spark.frame``.
        """
        task = self.plan.task
        groups: dict[tuple[int, int], list[ReadPart]] = defaultdict(list)
        for part in task.parts:
            groups[part.hidden, part.sources].append(part)
        if not groups:
            rows = self.spark.createDataFrame([], _schema(self.forms))
        else:
            rows = _together(self._visible(parts, *which) for which, parts in groups.items())
        if groups and task.primary_key:
            rows = self._last_of_each_key(rows)
        shown = (
            f"{self.forms[name].shown(name)} AS {quote_column(name)}" for name, _ in task.columns
        )
        return rows.selectExpr(*shown)

    def _visible(self, parts: Sequence[ReadPart], hidden: int, sources: int) -> DataFrame:
        """Return the visible rows of parts with the same deletes and the same column names."""
        plan = self.plan
        if plan.task.primary_key:
            rows, early = self._placed(parts, sources), plan.where_early
        else:
            rows, early = self._read(parts, sources), plan.where
        if early is not None:
            rows = rows.where(self._sql(early))
        if hidden >= 0:
            rows = rows.where(stays(self._sql(plan.hidden[hidden])))
        return rows

    def _last_of_each_key(self, rows: DataFrame) -> DataFrame:
        """Keep one row per primary key and partition."""
        task, place = self.plan.task, self.place
        rank = rank_in_key(
            task.primary_key,
            task.version,
            (place.part, place.row),
            within=quote_column(place.partition),
            quote=quote_column,
        )
        rows = rows.selectExpr("*", f"{rank} AS {place.rank}").where(f"{place.rank} = 1")
        if task.deleted:
            rows = rows.where(stays(quote_column(task.deleted)))
        return rows if self.plan.where is None else rows.where(self._sql(self.plan.where))

    def _placed(self, parts: Sequence[ReadPart], sources: int) -> DataFrame:
        """Read rows with what tells their partitions apart and sorts them as they were inserted."""
        place = self.place
        names = Counter(_name(part) for part in parts)
        plain = [p for p in parts if names[_name(p)] == 1 and _PLAIN.fullmatch(_name(p))]
        others = [part for part in parts if part not in plain]
        found = [
            self._read([part], sources, {"row_index": place.row})
            .withColumn(place.partition, sql.lit(part.partition))
            .withColumn(place.part, sql.lit(part.place))
            for part in others
        ]
        if plain:
            rows = self._read(plain, sources, {"row_index": place.row, "file_name": place.file})
            where = [(_name(part), part.partition, part.place) for part in plain]
            known = self.spark.createDataFrame(
                where, f"{place.file} string, {place.partition} int, {place.part} int"
            )
            # A name that is not found would be a row less: an error instead.
            number = sql.coalesce(place.part, sql.raise_error(sql.col(place.file)).cast("int"))
            joined = rows.join(sql.broadcast(known), place.file, "left")
            found.append(joined.withColumn(place.part, number).drop(place.file))
        return _together(found)

    def _read(
        self, parts: Sequence[ReadPart], sources: int, more: Mapping[str, str] | None = None
    ) -> DataFrame:
        """Read columns under the table's names.

        Args:
            parts: parts with the same column names.
            sources: as in ``ReadPart``.
            more: what Spark knows of each row (a field of its column ``_metadata``) -> its name.
        """
        own = dict(self.plan.task.sources[sources]) if sources >= 0 else {}
        held = {
            name: form for column, form in self.forms.items() for name in own.get(column, (column,))
        }
        rows = self._scan(parts, held)
        if not own and not more:
            return rows
        columns = [_of(own.get(name, (name,)), form, name) for name, form in self.forms.items()]
        for field, name in (more or {}).items():
            columns.append(part_metadata(rows, field).alias(name))
        return rows.select(*columns)

    def _scan(self, parts: Sequence[ReadPart], columns: Mapping[str, Stored]) -> DataFrame:
        for part in parts:
            if _LEFT_OUT.fullmatch(_name(part)):
                raise UsageError(
                    f"Spark takes part {part.key} for a temporary file, by its name, and would "
                    "leave it out",
                    next_step=_INSTEAD,
                )
        reader = self.spark.read.options(**self.options, **_OPTIONS).schema(_schema(columns))
        try:
            rows = reader.parquet(*(self.base + part.key for part in parts))
            if is_connect(self.spark):
                _ = rows.schema  # asks the server, which only then looks at the paths
        except Exception as error:
            known = self._translated(str(error))
            if known is None:
                raise
            raise known from error
        return rows

    def _translated(self, text: str) -> FirnlineError | None:
        if _NO_FILE_SYSTEM.search(text):
            scheme = self.base.partition("://")[0]
            return EnvironmentFaultError(
                f"Spark has no file system for {scheme}://, by which it would read {self.base}",
                next_step=f"start it with the connector of its Hadoop version ({_CONNECTORS}), or "
                f"{_INSTEAD}",
            )
        if "PATH_NOT_FOUND" in text:
            gone = next((p.key for p in self.plan.task.parts if p.key in text), "of this snapshot")
            return PartGoneError(
                f"part {gone} has no object any more: it was deleted after the log was read, or "
                "Spark looks for it in another place",
                next_step=READ_AGAIN,
            )
        return None

    def _sql(self, tree: Predicate) -> str:
        return to_sql(tree, self.plan.schema, SPARK)


@dataclass(frozen=True)
class Place:
    """Names of columns that are read only to choose one row per key; none is a table's."""

    partition: str
    part: str
    row: str
    file: str
    rank: str

    @classmethod
    def beside(cls, columns: Iterable[str]) -> Place:
        """Return names that no column of a table has."""
        wishes = ("partition_number", "part_number", "row_number", "file_name", "rank_in_key")
        return cls(*(free_name(wish, columns) for wish in wishes))


_CONNECTORS = "hadoop-aws for s3a, hadoop-azure for abfss, gcs-connector for gs"
_INSTEAD = 'read with spark.read.format("firnline")'


def _schema(columns: Mapping[str, Stored]) -> StructType:
    return StructType([StructField(name, form.read) for name, form in columns.items()])


def _of(names: Sequence[str], form: Stored, column: str) -> Column:
    """Return a column of the table from those of a part: the first one with a value."""
    found = [sql.col(quote_column(name)) for name in names]
    value = sql.coalesce(*found) if found else sql.lit(None).cast(form.read)
    return (found[0] if len(found) == 1 else value).alias(column)


def _name(part: ReadPart) -> str:
    return part.key.rpartition("/")[2]


def _together(rows: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, rows)
