"""Options and report of a replace."""

from __future__ import annotations

from firnline.errors import RunFailedError
from firnline.log.txn_file import Counts
from firnline.operations.merge.run import Failure
from firnline.operations.options import Mode
from firnline.operations.report import Report
from firnline.types.values import Scalar


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
