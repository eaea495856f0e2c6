"""Publish because something was committed: what was committed stands, whatever becomes of it.

So a failure is an outcome here, and never an error of whoever has committed. It is not lost either:
it is returned, and said. The next publication, of any process, shows what this one did not.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from firnline.appends.append import AppendResult
from firnline.appends.mirrored import MirrorOutcome
from firnline.errors import FirnlineError, MirrorPlaceError, UsageError
from firnline.log.txn_file import RunIdentity
from firnline.operations.mirror.run import MirrorReport, run_mirror
from firnline.operations.mirror.words import sentence, unplaced
from firnline.operations.operation import Work
from firnline.operations.options import MirrorOptions
from firnline.settings.load import TableSettings
from firnline.settings.mirrors import FORMATS
from firnline.table import Table

_LOG = logging.getLogger(__name__)


def refuse_unmirrored(settings: TableSettings, asked: str) -> None:
    """Raise UsageError if there is nothing to publish: an append was asked for more than it does.

    Args:
        settings: of the table, as the caller has them.
        asked: what asks for the publication, such as ``--mirror``.
    """
    if not settings.mirrors:
        raise UsageError(
            f"the settings of {settings.name} name no mirror, and {asked} would publish it",
            next_step=f"write mirror: [delta] into the settings file, or leave {asked} out",
        )


def publish_after(table: Table, run: RunIdentity) -> MirrorOutcome:
    """Publish every mirror of the table. Requests: those of ``run_mirror``. Raises nothing."""
    before = table.store.counters.as_dict()
    name, error, published = table.settings.name, None, False
    warnings: tuple[str, ...] = ()
    try:
        report = run_mirror(Work(table, run), MirrorOptions())
    except Exception as found:  # noqa: BLE001 - whatever it is, what was committed stands
        error, told = found, _failure(name, found)
    else:
        told, warnings = sentence(report.to_json()), report.warnings
        published = _is_shown(report)
    after = table.store.counters.as_dict()
    requests = {kind: after[kind] - before[kind] for kind in after}
    return MirrorOutcome(name, published, told, error, requests, warnings)


def publish_committed(table: Table, run: RunIdentity, puts: int = 0) -> MirrorOutcome | None:
    """Publish every mirror after a run that may have committed; None if there is nothing to do.

    The table decides: it has the mirrors that it states, as the run has just read it, and those
    that its settings begin. A run that has put nothing has committed nothing, and one that deletes
    the whole table has nothing to show. An interrupt is raised, with a note that what was committed
    stands.

    Requests: those of ``run_mirror``; none if there is nothing to do.

    Args:
        table: the table that the run was given.
        run: who ran, for the history, if the table gets its property now.
        puts: PUT requests of the table's store before the run.
    """
    named = (table.wanted or table.settings).mirrors
    if table.store.counters.put == puts or not (named or table.stated.mirrors):
        return None
    if table.stated.ends:
        return None
    try:
        return publish_after(table, run)
    except BaseException as stopped:
        stopped.add_note(
            "what was committed stands, and the next publication of the mirror shows it"
        )
        raise


def _is_shown(report: MirrorReport) -> bool:
    """Return True if every mirror that the table states shows its newest state."""
    done = {name: found for name in FORMATS if (found := getattr(report, name)) is not None}
    stated = {name for each in done.values() for name in each.stated}
    return stated <= done.keys() and all(each.hold is None for each in done.values())


def after_append(table: Table, result: AppendResult, run: RunIdentity) -> AppendResult:
    """Publish at once after an append, and return its result with the outcome.

    An append of no row has written nothing, and publishes nothing. One whose key was there already
    publishes: whoever added the rows may have died before that. A failure is also a warning in
    the log. An interrupt is raised, with a note that the append stands.

    Args:
        table: the table.
        result: of the append, whose log file is written.
        run: who appended, for the history, if the table gets its property now.
    """
    if result.log_key is None and not result.repeated:
        return result
    try:
        outcome = publish_after(table, run)
    except BaseException as stopped:
        stopped.add_note(
            f"the append stands: its log file {result.log_key or 'of before'} is written, and the "
            "next publication of the mirror shows it"
        )
        raise
    warn(outcome)
    return replace(result, mirror=outcome)


def warn(outcome: MirrorOutcome) -> None:
    """Log a failed publication; one that is none of firnline's errors with its traceback.

    So are the warnings of one that did not fail.
    """
    for warning in outcome.warnings:
        _LOG.warning("a publication of the mirror of %s warns: %s", outcome.table, warning)
    if outcome.error is not None:
        known = isinstance(outcome.error, FirnlineError)
        _LOG.warning("%s", outcome.said, exc_info=None if known else outcome.error)


def _failure(name: str, error: Exception) -> str:
    if isinstance(error, MirrorPlaceError):
        what, how = unplaced(name)
        return f"{what}; what was committed stands, and {how}"
    known = isinstance(error, FirnlineError)
    reason = str(error) if known else f"{type(error).__name__}: {error}"
    return (
        f"the mirror of {name} was not published: {reason}; what was committed stands, "
        f"and the next publication shows it; `firnline mirror {name}` publishes it now"
    )
