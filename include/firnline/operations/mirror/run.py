"""Mirror: publish the newest state of a table in a format that other engines read.

A mirror is metadata of another format over the same parts; the table's own log stays the truth.
Each publication is one create-only put, so it may be run, repeated and killed at any time, beside
everything else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from firnline.errors import FirnlineError, NotMirroredError
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.checkpoint import Kept, keep_short
from firnline.mirror.delta.publish import NAME, Published, publish
from firnline.operations.options import MirrorOptions
from firnline.operations.properties.run import run_apply
from firnline.operations.runner import Report, RunMetrics
from firnline.table import Table

_LOG = logging.getLogger(__name__)


class MirrorReport(Report, frozen=True, kw_only=True):
    """Result of a publication, in each format."""

    table: str
    dry_run: bool
    delta: Published
    applied: int | None
    """Transaction that made the table say that it has a mirror; None if it did already."""
    checkpoint: int | None = None
    """Version of which a checkpoint was written."""
    expired: int = 0
    """Objects of older versions that were deleted."""
    warnings: tuple[str, ...] = ()
    """Failures that cost time or space only."""
    requests: dict[str, int]
    seconds: float


def run_mirror(
    table: Table,
    options: MirrorOptions,
    run: RunIdentity,
    on_progress: Callable[[int, int], object] = lambda *_: None,
) -> MirrorReport:
    """Publish the newest state.

    Requests: those of ``publish``; where the table does not say yet that it has a mirror, and the
    settings do, those of ``properties.run_apply``, and the others twice.

    Args:
        table: the table.
        options: whether to plan only.
        run: who runs it, for the history, if the table gets its property now.
        on_progress: called with the parts that were looked through for rows which deletes hide, and
            the number of all such parts.

    Raises: as ``publish`` and ``properties.run_apply``.
    """
    metrics = RunMetrics(table)
    applied = None
    try:
        published = publish(table, dry_run=options.dry_run, progress=on_progress)
    except NotMirroredError:
        if options.dry_run or NAME not in (table.wanted or table.settings).mirrors:
            raise
        applied = run_apply(table, run, harmless=True).transaction
        published = publish(table, progress=on_progress)
    kept = Kept()
    if published.written and published.version is not None and not options.dry_run:
        kept = _keep_short(table, published.version, published.grace)
    return MirrorReport(
        table=table.settings.name,
        dry_run=options.dry_run,
        delta=published,
        applied=applied,
        checkpoint=kept.checkpoint,
        expired=kept.expired,
        warnings=(kept.warning,) if kept.warning else (),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def _keep_short(table: Table, version: int, grace: int) -> Kept:
    """Keep the mirror's log short; if that fails, it costs readers time only."""
    try:
        return keep_short(table, version, grace)
    except FirnlineError as error:
        _LOG.warning("the mirror of %s is published, and %s", table.settings.name, error)
        return Kept(warning=str(error))
