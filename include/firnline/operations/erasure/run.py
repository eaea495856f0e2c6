"""Carry out the requests of erasure that wait: each table once, for all of them together.

What a request has reached is read from the certificates of the tables, which name it. So a run that
died is gone on with by the next one, and what it had erased is not erased again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from firnline.errors import FirnlineError, RunFailedError, UsageError, some
from firnline.log.txn_file import RunIdentity
from firnline.operations.at_once import at_once
from firnline.operations.erase.attempt import try_certificate
from firnline.operations.erase.run import EraseReport
from firnline.operations.erasure.folder import RequestFolder, Requests
from firnline.operations.erasure.look import TableLook, look_at_table, unread
from firnline.operations.erasure.plan import ErasurePlan, Open, by_urgency, plan_erasure
from firnline.operations.erasure.record import Closed, Request
from firnline.operations.options import EraseOptions
from firnline.operations.runner import Report
from firnline.settings.load import Settings
from firnline.table import Table
from firnline.units import about_duration, counted

_LOG = logging.getLogger(__name__)

Opens = Callable[[str], Table]
"""Opens a table of the settings by its name; sends no request."""
Erases = Callable[[Table, EraseOptions], EraseReport]
"""Erases a batch from a table."""


@dataclass(frozen=True, slots=True)
class People:
    """The tables with rows of people, and the folder of their requests."""

    folder: RequestFolder
    settings: Settings
    opens: Opens

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tables that are looked at."""
        return tuple(sorted(t.name for t in self.settings.tables.values() if t.person))

    @property
    def unstated(self) -> tuple[str, ...]:
        """Return the tables that do not say."""
        return tuple(t.name for t in self.settings.tables.values() if t.person is None)

    @property
    def broken(self) -> tuple[TableLook, ...]:
        """Return the tables whose settings have mistakes, or do not read, and may have people.

        Of a file that does not read its tables are unknown: its name stands for them.
        """
        return tuple(
            TableLook(
                table=each.name,
                columns=each.person or (),
                unread=f"{each.error.headline.rstrip(':')}; {each.error.next_step}",
            )
            for each in self.settings.unusable
            if each.person != ()
        )


class ErasedFrom(Report, frozen=True, kw_only=True):
    """Result of a run for one table."""

    table: str
    requests: tuple[str, ...]
    keys: int
    rows: int = 0
    """Rows that went from files, also those that readers did not see any more."""
    certificate: str | None = None
    problem: str = ""
    """Why it failed, with the next step; empty: it did not."""


class ErasureReport(Report, frozen=True, kw_only=True):
    """Result of a run over all tables."""

    tables: tuple[ErasedFrom, ...]
    closed: tuple[str, ...]
    """Requests that this run has closed."""
    open: int
    """Requests that are still open."""
    overdue: tuple[str, ...]
    waiting: tuple[str, ...]
    """What is in the way of requests that are open, a sentence for each and table."""
    unstated: tuple[str, ...]
    unread: tuple[str, ...]
    """Requests that do not read, each with the reason."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the failures, a sentence for each table and request."""
        failed = (f"{each.table}: {each.problem}" for each in self.tables if each.problem)
        return (*failed, *self.unread)


class ErasureFailedError(RunFailedError):
    """Some tables may hold rows of people who asked to be erased; carries the report."""

    def __init__(self, report: ErasureReport) -> None:
        failed = [each.table for each in report.tables if each.problem]
        what = some(failed) if failed else "tables of requests that do not read"
        super().__init__(
            f"{what} may hold rows of people still",
            next_step="see the reasons above, and run it again",
        )
        self.report = report


def look(people: People, looked: Callable[[TableLook], object] = lambda _: None) -> ErasurePlan:
    """Return how far all requests are; nothing is written.

    Requests: those of ``RequestFolder.requests``, and for each table of ``look.look_at_table``.

    Raises StoreError: the folder cannot be read. What is wrong with one table or request is in the
    plan.
    """
    return _looked(people, people.folder.requests(), looked)


def settle(people: People, run: RunIdentity) -> tuple[ErasurePlan, tuple[str, ...]]:
    """Complete certificates whose time has come, and close the requests that are done.

    Returns how far the requests are then, and the ids of those that were closed.

    Requests: those of ``look``, and of ``complete_certificate`` for each certificate whose grace
    is over; then 1 PUT and 1 DELETE for each request that is closed.

    Raises: as ``look``.
    """
    folder = people.folder
    found = folder.requests()
    for ended in found.standing:
        if ended.closed is not None and ended.has_keys:
            folder.forget(ended.request.id)  # of a run that died after the end was written
    plan = _looked(people, found)
    if _complete(people, plan, run):
        plan = _looked(people, found)
    done = [each for each in plan.requests if each.to_close and people.names]
    for each in done:
        folder.close(_closed(people, each, run))
    left = tuple(each for each in plan.requests if each not in done)
    closed = tuple(each.request.id for each in done)
    return replace(plan, requests=left, closed=plan.closed + len(done)), closed


def carry_out(
    people: People, plan: ErasurePlan, closed: Sequence[str], erases: Erases
) -> ErasureReport:
    """Erase the batches of a plan, one table after the other; one that fails holds up no other.

    Args:
        people: the tables.
        plan: what ``settle`` has returned.
        closed: likewise.
        erases: erases one batch.

    Raises ErasureFailedError: of some tables the erase failed, after all others were handled.
    """
    report = ErasureReport(
        tables=tuple(_erased(people, each, plan, erases) for each in plan.batches),
        closed=tuple(closed),
        open=len(plan.requests),
        overdue=tuple(each.request.id for each in plan.requests if each.overdue),
        waiting=tuple(f"{named(each)}, {why}" for each in plan.requests for why in each.why),
        unstated=plan.unstated,
        unread=plan.unread,
    )
    if report.problems:
        raise ErasureFailedError(report)
    return report


def withdraw(people: People, request: str, why: str, run: RunIdentity) -> Closed:
    """Close a request without carrying it out, and delete its keys; what was erased stays so.

    Raises UsageError: there is no such request, it is closed, or no reason was given.
    """
    standing = people.folder.one(request)
    if standing.closed is not None:
        raise UsageError(f"request {request} is closed", next_step="`firnline erasure show`")
    if not why.strip():
        raise UsageError("no reason was given", next_step="say why with --why")
    now = people.folder.clock.now_ms()
    ended = Closed(id=request, closed_ms=now, closed_by=run, withdrawn=why)
    return people.folder.close(ended)


def batch_of(people: People, look: TableLook, plan: ErasurePlan) -> EraseOptions:
    """Return the options of the erase of a table's batch."""
    requests = (each.request for each in plan.requests if each.request.id in look.batch)
    asked = tuple(people.folder.keys_of(each) for each in requests)
    return EraseOptions(columns=look.columns, requests=asked)


def look_at_tables(
    people: People,
    requests: Sequence[Request],
    looked: Callable[[TableLook], object] = lambda _: None,
    *,
    keys: bool = True,
) -> tuple[TableLook, ...]:
    """Return how far open requests are in all tables; no table keeps another from being looked at.

    Requests: of ``look.look_at_table`` for each table; none without a request.

    Args:
        people: the tables.
        requests: that are open, by their urgency.
        looked: told after each table.
        keys: as of ``look.look_at_table``.
    """

    def one(name: str) -> TableLook:
        try:
            table = people.opens(name)
        except FirnlineError as error:  # an Airflow connection may be missing
            return unread(name, people.settings.tables[name].person or (), error)
        return look_at_table(table, people.folder, requests, keys=keys)

    names = people.names if requests else ()
    looks = at_once(names, one, people.settings.fleet.concurrency, looked)
    return (*looks, *people.broken)


def _looked(
    people: People,
    found: Requests,
    looked: Callable[[TableLook], object] = lambda _: None,
) -> ErasurePlan:
    tables = look_at_tables(people, by_urgency(found), looked)
    now = people.folder.clock.now_ms()
    return plan_erasure(found, tables, people.unstated, people.settings.erasure, now)


def _complete(people: People, plan: ErasurePlan, run: RunIdentity) -> bool:
    """Try the certificates whose grace is over; return True if there were any."""
    ripe = {
        (look.table, step.certificate)
        for look in plan.tables
        for step in look.steps
        if step.ripe_ms is not None and step.ripe_ms <= plan.now_ms
    }
    for table, certificate in sorted(ripe, key=str):
        try:
            try_certificate(people.opens(table), certificate or "", run)
        except FirnlineError as error:
            # It stays waiting, and the request open: `firnline certificate` says why.
            _LOG.warning("certificate %s of %s: %s", certificate, table, error)
    return bool(ripe)


def _closed(people: People, done: Open, run: RunIdentity) -> Closed:
    return Closed(
        id=done.request.id,
        closed_ms=people.folder.clock.now_ms(),
        closed_by=run,
        tables=done.complete,
        without=done.request.without,
        unstated=people.unstated,
    )


def _erased(people: People, look: TableLook, plan: ErasurePlan, erases: Erases) -> ErasedFrom:
    problem = ""
    try:
        report: EraseReport | None = erases(people.opens(look.table), batch_of(people, look, plan))
    except FirnlineError as error:
        report, problem = getattr(error, "report", None), f"{error.headline}; {error.next_step}"
    return ErasedFrom(
        table=look.table,
        requests=look.batch,
        keys=look.keys,
        rows=0 if report is None else report.counts.rows_deleted,
        certificate=None if report is None else report.certificate,
        problem=problem,
    )


def overdue_text(found: Iterable[Open], now_ms: int) -> str:
    """Return the sentence of an alert, which names requests and no key."""
    each = [
        f"{named(one)} is {clock_text(one.request.due_ms, now_ms)}, "
        f"{counted(len(one.left), 'table')} to go"
        for one in found
    ]
    return f"{counted(len(each), 'request')} of erasure: {'; '.join(each)}"


def named(one: Open) -> str:
    """Return what a request is called for people."""
    return one.request.reference or one.request.id


def clock_text(due_ms: int, now_ms: int) -> str:
    """Return how a time stands to that at which something is due: ``due in 3d 2h``."""
    left = due_ms - now_ms
    return f"due in {about_duration(left)}" if left > 0 else f"{about_duration(-left)} overdue"
