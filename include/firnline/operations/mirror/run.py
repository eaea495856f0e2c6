"""Mirror: publish the newest state of a table in formats that other engines read.

A mirror is metadata of another format over the same parts; the table's own log stays the truth.
Each publication takes effect with one request, a create-only put or a commit of a catalog, so it
may be run, repeated and killed at any time, beside everything else.
"""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass, field

from firnline.commit.base import read_base
from firnline.errors import FirnlineError, MirrorPlaceError, NotMirroredError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta import publish as delta
from firnline.mirror.delta.checkpoint import Kept, keep_short
from firnline.mirror.iceberg.where import AGAIN, where_is
from firnline.mirror.progress import OnProgress
from firnline.mirror.published import Published
from firnline.mirror.stated import refuse_unstated
from firnline.operations.mirror.words import unplaced
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.runner import Report, RunMetrics
from firnline.table import Table

_LOG = logging.getLogger(__name__)
MOST_VECTORS = 512
"""Deletion vectors that deltalake reads, and Polars with it: each takes a thread of 512, and waits
for another one."""


class MirrorReport(Report, frozen=True, kw_only=True):
    """Result of a publication, in each format."""

    table: str
    dry_run: bool
    delta: Published | None = None
    """None without a Delta mirror."""
    iceberg: Published | None = None
    """None without an Iceberg mirror."""
    applied: int | None
    """Transaction that made the table say that it has a mirror; None if it did already."""
    checkpoint: int | None = None
    """Version of the Delta mirror of which a checkpoint was written."""
    expired: int = 0
    """Objects of older versions that were deleted."""
    warnings: tuple[str, ...] = ()
    """Failures that cost time or space only, and what readers do not cope with."""
    requests: dict[str, int]
    seconds: float


def run_mirror(work: Work, options: MirrorOptions) -> MirrorReport:
    """Publish the newest state in each format that the settings name or the table states.

    One format after another: where one fails, the others are published all the same, and the first
    error is raised in the end. That of a format which only the table states is a warning, if
    another one is published: the settings may not say where it is, and clean-up waits for its
    readers anyway.

    Requests: those of ``publish`` of each format; where the table does not say yet that it has a
    mirror, and the settings do, those of ``properties.run.run_apply``, and the others twice. Where
    the settings name no mirror, and what the table states was not read before, those of
    ``read_base`` once more.

    Args:
        work: on what, and for whom; told with the parts that are looked through for rows which
            deletes hide, and with the files that are written, format after format.
        options: whether to plan only, and whether to look for damage.

    Raises UsageError for a repair without a Delta mirror; others as ``publish`` of each format and
    ``properties.run.run_apply``.
    """
    table = work.table
    metrics = RunMetrics(table)
    done = _Formats(table, work.identity, work.tell, dry_run=options.dry_run, repair=options.repair)
    named = (table.wanted or table.settings).mirrors
    asked = named or table.stated.mirrors or _stated(table)
    if options.repair and delta.NAME not in asked:
        raise UsageError(
            f"--repair is for a Delta mirror, and table {table.settings.name} has none",
            next_step=AGAIN,
        )
    failed = {name: error for name in asked if (error := done.publish(name))}
    others = dict.fromkeys(name for each in done.found.values() for name in each.stated)
    left = {n: error for n in others if n not in asked and (error := done.publish(n))}
    if not named and done.found:
        left, failed = left | failed, {}
    kept = Kept() if options.dry_run else _keep_short(table, done.found)
    for error in failed.values():
        raise error
    warnings = [_left_out(table, name, error) for name, error in left.items()]
    return MirrorReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        delta=done.found.get("delta"),
        iceberg=done.found.get("iceberg"),
        applied=done.applied,
        checkpoint=kept.checkpoint,
        expired=kept.expired,
        warnings=(
            *warnings,
            *(warning for each in done.found.values() for warning in each.warnings),
            *filter(None, (kept.warning, _too_many_vectors(done.found.get("delta")))),
        ),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


@dataclass
class _Formats:
    """The publications of one run."""

    table: Table
    run: RunIdentity
    on_progress: OnProgress
    _: KW_ONLY
    dry_run: bool
    repair: bool
    found: dict[str, Published] = field(default_factory=dict)
    """Those that succeeded, by format."""
    applied: int | None = None
    """Transaction that made the table state its mirrors."""

    def publish(self, name: str) -> FirnlineError | None:
        """Publish in one format; return why that failed."""
        try:
            self.found[name] = self._publish(name)
        except FirnlineError as error:
            return error
        return None

    def _publish(self, name: str) -> Published:
        try:
            done = _publish(self.table, name, self.on_progress, dry_run=self.dry_run)
        except NotMirroredError:
            if self.dry_run:
                raise
            self.applied = run_apply(self.table, self.run, harmless=True).transaction
            done = _publish(self.table, name, self.on_progress)
        return self._repaired(done) if self.repair and name == delta.NAME else done

    def _repaired(self, done: Published) -> Published:
        """Repair a Delta mirror that shows the newest state; a dry run has not published that."""
        if done.hold is not None or (self.dry_run and done.written):
            return done
        again = delta.publish(
            self.table, dry_run=self.dry_run, repair=True, progress=self.on_progress
        )
        return again if again.written else done


def _left_out(table: Table, name: str, error: FirnlineError) -> str:
    """Return the warning about a format that only the table states, and that failed."""
    table_name = table.settings.name
    if isinstance(error, MirrorPlaceError):
        return "; ".join(unplaced(table_name))
    return (
        f"table {table_name} states mirror: [{name}], which the settings do not name, and it was "
        f"not published: {error}"
    )


def _too_many_vectors(done: Published | None) -> str:
    """Return a warning where readers would hang; empty where they do not."""
    if done is None or done.hold is not None or done.vectors <= MOST_VECTORS:
        return ""
    return (
        f"{done.vectors} parts have deletion vectors, and with more than {MOST_VECTORS} queries of "
        "DataFusion and Polars hang (delta-rs issue 4657): merge the table"
    )


def _publish(
    table: Table, name: str, on_progress: OnProgress, *, dry_run: bool = False
) -> Published:
    if name == delta.NAME:
        return delta.publish(table, dry_run=dry_run, progress=on_progress)
    where_is(table)
    # It needs a library that is an extra, and takes a second to load.
    from firnline.mirror.iceberg.publish import publish

    return publish(table, dry_run=dry_run, progress=on_progress)


def _stated(table: Table) -> tuple[str, ...]:
    """Return the formats that the table states. Raises NotMirroredError if it states none."""
    base = read_base(table)
    names = () if base.properties is None else base.properties.mirrors
    if not names:
        refuse_unstated(base, delta.NAME)
    return names


def _keep_short(table: Table, published: dict[str, Published]) -> Kept:
    """Keep the metadata of mirrors short; if that fails, it costs readers time only."""
    kept = Kept()
    written = {name: done.version for name, done in published.items() if done.written}
    version = written.get("delta")
    if version is not None:
        kept = _shorten(table, version, published["delta"].grace)
    version = written.get("iceberg")
    if version is not None:
        from firnline.mirror.iceberg.sweep import keep_short as sweep

        swept = sweep(table, version, published["iceberg"].grace)
        warning = "; ".join(filter(None, (kept.warning, swept.warning)))
        kept = Kept(
            checkpoint=kept.checkpoint, expired=kept.expired + swept.expired, warning=warning
        )
    return kept


def _shorten(table: Table, version: int, grace: int) -> Kept:
    try:
        return keep_short(table, version, grace)
    except FirnlineError as error:
        _LOG.warning("the mirror of %s is published, and %s", table.settings.name, error)
        return Kept(warning=str(error))
