"""A table as a data frame that Spark's own Parquet reader fills: ``frame(spark, "events")``.

``firnline.spark.frame`` may be called, too: it is this module as soon as somebody has imported it.

The driver plans from the log, and Spark reads the parts of the plan by their paths, with its own
file systems and credentials. Its S3 connector is told the endpoint that firnline reads from.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from firnline.errors import UsageError
from firnline.paths import Root
from firnline.predicate.tree import Predicate
from firnline.read.plan import ReadPlan
from firnline.read.scan import scan
from firnline.spark.format.parts import PartRows
from firnline.spark.format.s3a import s3a_options
from firnline.store.access import StoreAccess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firnline.state.moment import At
    from firnline.table import Table


def frame(  # noqa: PLR0913 -- those of ``scan``
    spark: SparkSession,
    table: Table | str,
    columns: Iterable[str] | None = None,
    where: str | Predicate | None = None,
    at: At | None = None,
    dedup: bool | None = None,
    partitions: str | Iterable[str] = (),
    *,
    settings: Path | None = None,
    access: StoreAccess | None = None,
) -> DataFrame:
    """Return the visible rows of a table as a data frame of Spark; the arguments are ``scan``'s.

    The log is read now, by this process and with ``access``. The parts are read by each action, by
    Spark and with Spark's own credentials; endpoint and region of an S3 that is not Amazon's are
    those of ``access`` or of the environment, unless the session states its own. A data frame is
    one snapshot: its parts exist for ``cleanup.grace`` at least.

    Raises:
        UsageError: as ``scan``; a column of a type that Spark's reader does not know; a session
            that tells columns apart by the case of their letters.
        EnvironmentFaultError: Spark has no file system for the table's store.
        PartGoneError: a part of the snapshot does not exist any more.
        others: as ``scan``.
    """
    found = scan(table, columns, where, at, dedup, partitions, settings=settings, access=access)
    _check(spark, found.plan)
    root, given = Root.parse(found.table.settings.root), found.table.access
    options = (
        s3a_options(spark, root.bucket, given or StoreAccess.from_env())
        if root.scheme == "s3"
        else {}
    )
    return PartRows.of(spark, found.plan, _base(root, given), options).frame()


class _Called(ModuleType):
    """The type of this module, which is called as its function is."""

    __call__ = staticmethod(frame)


sys.modules[__name__].__class__ = _Called


def _check(spark: SparkSession, plan: ReadPlan) -> None:
    """Refuse what Spark would read as other rows than the table's, without any error."""
    if _is_on(spark, "spark.sql.caseSensitive"):
        raise UsageError(
            "this session tells columns apart by the case of their letters: a part that spells a "
            "column in another way would be read as nulls",
            next_step="set spark.sql.caseSensitive to false",
        )
    for name, kind in plan.task.needed:
        if "UBIGINT" in kind and not _is_on(spark, "spark.sql.parquet.enableVectorizedReader"):
            raise UsageError(
                f"column {name!r} is {kind}, which Spark's row-based Parquet reader gets wrong in "
                "parts that have a narrower type",
                next_step="set spark.sql.parquet.enableVectorizedReader to true",
            )
    names = [name for name, _ in plan.task.needed]
    times = Counter(name.lower() for name in names)
    same = [name for name in names if times[name.lower()] > 1]
    if same:
        raise UsageError(
            f"columns {same[0]!r} and {same[1]!r} are one column for Spark",
            next_step="read one of them at a time with columns=[...], or rename one",
        )


def _is_on(spark: SparkSession, name: str) -> bool:
    return str(spark.conf.get(name)).lower() == "true"


def _base(root: Root, access: StoreAccess | None) -> str:
    """Return what precedes a part's key in its path for Spark. Raises UsageError."""
    if root.scheme == "file":
        return f"file://{root.bucket.rstrip('/')}/"
    if root.scheme in ("s3", "gs"):
        return f"{'s3a' if root.scheme == 's3' else 'gs'}://{root.bucket}/"
    if root.scheme != "az":
        raise UsageError(
            f"the table {root.url} is in the memory of this process, where Spark cannot read it",
            next_step="use a table on s3://, gs://, az:// or file://",
        )
    given = None if access is None or access.azure is None else access.azure.account
    account = given or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise UsageError(
            f"the storage account of {root.url} is not known, which Spark's paths contain",
            next_step="set AZURE_STORAGE_ACCOUNT_NAME, or pass access=",
        )
    return f"abfss://{root.bucket}@{account}.dfs.core.windows.net/"
