"""Options and report of a replace."""

from __future__ import annotations

import msgspec

from firnline.errors import RunFailedError, UsageError
from firnline.log.txn_file import Counts
from firnline.operations.delete.plan import Mode
from firnline.operations.merge.run import Failure
from firnline.operations.replace.plan import Span, time_column
from firnline.operations.report import Report
from firnline.settings.load import TableSettings
from firnline.types.values import Scalar


class ReplaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a replace."""

    column: str | None = None
    """Of times, dates or numbers; a row with a null there is never replaced. None: the column that
    the settings say time by (``plan.replace.time_column``)."""
    start: str | int | float
    """First value that is replaced, in the form of docs/format.md, or as text."""
    end: str | int | float
    """First value after the interval."""
    equal: dict[str, str | int | float | bool] = {}
    """Column -> value: only rows that equal all of them are replaced."""
    files: tuple[str, ...] = ()
    """Parquet files and folders with the new rows: local paths, or URLs in the table's bucket."""
    nothing: bool = False
    """There are no new rows: the interval is empty afterwards."""
    partition: str | None = None
    """Path of all new rows, only for a table without ``partition_by``."""
    mode: Mode | None = None
    """``eager`` or ``lazy`` for parts that the interval cuts; None: the table's ``deletes``."""
    dry_run: bool = False

    def span(self, settings: TableSettings) -> Span:
        """Return the rows that are replaced. Raises UsageError where no column is named."""
        column = self.column or time_column(settings)
        if column is None:
            raise UsageError(
                f"the settings of table {settings.name} name no column of times",
                next_step="name the column (--column)",
            )
        return Span(column, self.start, self.end, tuple(self.equal.items()))


class ReplaceReport(Report, frozen=True, kw_only=True):
    """Result of a replace: its plan and what was done."""

    table: str
    dry_run: bool
    mode: Mode
    column: str
    start: Scalar
    end: Scalar
    equal: dict[str, Scalar]
    delete: str | None
    """Id of the delete record; None when nothing was committed."""
    transaction: int | None
    rows_new: int
    parts_new: int
    bytes_new: int
    parts_read: int
    """Parts that were read, of those that the interval cuts."""
    parts_rewritten: int
    """Parts that were read and held rows of the interval."""
    parts_dropped: int
    """Parts dropped without being read: they lay wholly inside."""
    parts_excluded: int
    """Statistics prove that they hold no such row."""
    parts_hidden: int
    """lazy: parts that may hold such rows, which go with the next merge."""
    counts: Counts
    failures: tuple[Failure, ...]
    """With any of them nothing is committed."""
    replans: int
    """Times that the run planned again because another run replaced parts of the plan."""
    requests: dict[str, int]
    seconds: float


class ReplaceFailedError(RunFailedError):
    """A part could not be read, and nothing was committed; carries the report."""

    def __init__(self, report: ReplaceReport) -> None:
        first = report.failures[0]
        super().__init__(
            f"nothing was replaced in table {report.table}: {len(report.failures)} groups of "
            f"parts could not be rewritten; the first, in partition "
            f"{first.partition or '(none)'}: {first.message}",
            next_step="repair or drop the parts that the report names, or leave the rewriting to "
            "merges with mode lazy",
        )
        self.report = report
