"""An operation as every door takes it: what there is to know of it, and what it is given.

``operations.registry`` has an ``About`` of each. DAGs, pools and commands take from it what they
need to know without importing the operation; ``load`` imports what plans and acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import msgspec

from firnline.errors import FirnlineError, UsageError
from firnline.operations.fields import checked

if TYPE_CHECKING:
    from pathlib import Path

    # Airflow parses what imports this again and again.
    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.pages import Page
    from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted
    from firnline.settings.sections import Operation as DagName
    from firnline.table import Table

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)
"""An operation's options."""
PlanT = TypeVar("PlanT", bound="Figures")
ReportT = TypeVar("ReportT", bound="Figures")

Lock = Literal["merge", "cleanup"]
"""The Airflow pool of the table that its runs hold: of operations that replace parts, or of those
that delete objects (``operations.pools``)."""


class Figures(Protocol):
    """The interface of every plan and report."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        ...


class Plan(Figures, Protocol):
    """Result of a planner; ``to_json`` has ``seq`` if it is based on a transaction."""

    @property
    def nothing_to_do(self) -> bool:
        """Return True if the run can end here."""
        ...


def no_engine() -> Engine:
    """Refuse to start one, for work that opens no part."""
    raise AssertionError("work that was given no engine opens a part")


def untold(*_progress: object) -> None:
    """Take progress that nobody wants to know."""


def _nobody() -> RunIdentity:
    from firnline.log.txn_file import RunIdentity

    return RunIdentity()


@dataclass(frozen=True, slots=True)
class Work:
    """What every operation is given besides its options."""

    table: Table
    identity: RunIdentity = field(default_factory=_nobody)
    """Who runs it, for the history and certificates."""
    engine: Callable[[], Engine] = no_engine
    """Called once there is a part to read, so that no JVM starts for nothing."""
    tell: Callable[..., None] = untold
    """Called with the run's progress, in whatever units the operation counts."""
    footers: Footers | None = None
    """Reads the footers of many parts elsewhere; None: in threads of this process."""
    scratch: Path | None = None
    """Folder for files on their way; None: the system's."""
    target: Table | None = None
    """Of a clone: the table that it makes."""
    consent: Consent | None = None
    """Asked before a run after which rows may be gone; None: nobody can be asked, and an operation
    that asks refuses to run."""


Footers = Callable[["Sequence[FooterTask]", "FooterWanted"], "Iterator[FooterFacts]"]
"""Reads the footers of many parts."""
Consent = Callable[["Operation[Any, Any, Any]", Work, Any], Any]
"""Returns the options to run with, which may hold the run to what was agreed to. Raises what ends
the run instead."""
Data = Mapping[str, Any]
"""Figures of a plan or report as plain data, with the name of the table."""


def decided(_operation: object, _work: Work, options: OptionsT) -> OptionsT:
    """Consent of a caller who has decided before the call."""
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[OptionsT, PlanT, ReportT]):
    """What an operation does, and how it says what it would do and has done.

    Doors call ``run`` and ``plan``. Whatever every door has to heed stands in there, so that no
    door can forget it.
    """

    about: About[OptionsT, PlanT, ReportT]
    preview: Callable[[Table, OptionsT], PlanT] | None = None
    """Plans, and does nothing; None for an operation that only reads."""
    act: Callable[[Work, OptionsT], ReportT]
    """Plans and acts. An error with a ``report`` has the report shown before the error."""
    verdict: Callable[[ReportT], None] | None = None
    """Raises FirnlineError if what a run that changes nothing has found is to fail it."""
    confirmed: Callable[[OptionsT, PlanT], OptionsT] | None = None
    """Returns options by which the run refuses to do anything but the plan that was agreed to."""
    named: Callable[[OptionsT, str], OptionsT] | None = None
    """Returns options with the name that a person has typed; where it is there, nobody says yes,
    but types the name of the table."""
    begins: Callable[[OptionsT], bool] | None = None
    """Returns True where these options make a table that is not there yet; None: none do."""
    asks_nobody: Callable[[Work, OptionsT], bool] | None = None
    """Returns True where a run with these options takes no row from readers."""
    beside: Callable[[Table], Data] | None = None
    """Returns what plan page and JSON have of the table besides the plan and the table's name."""
    plan_page: Callable[[Data], Page] | None = None
    report_page: Callable[[Data], Page]
    failure_page: Callable[[Data], Page] | None = None
    """Page of the report of a run that failed; None: as of one that did not."""
    stored_nowhere: Callable[[ReportT], str | None] | None = None
    """Returns what is lost if nobody gets to see the report; None: nothing."""
    stopped: Callable[[str, OptionsT], tuple[str, str]]
    """Table, options -> what holds if the run is interrupted, and the next step."""
    in_short: Callable[[str, ReportT], FirnlineError] | None = None
    """Table, report -> the error of a run that failed, for who has the report before him."""

    def plan(self, table: Table, options: OptionsT) -> PlanT:
        """Plan; nothing is changed. Requests: 1 LIST besides, where ``require_table`` sends it.

        Raises:
            NoTableError: as ``require_table``.
            FirnlineError: options that a run would refuse.
        """
        assert self.preview is not None, f"{self.about.noun} is not planned"
        options = checked(options, self.about.options)
        self.require_table(table, options)
        return self.preview(table, options)

    def require_table(self, table: Table, options: OptionsT) -> None:
        """Refuse a root without a table, unless this works there too (``begins``).

        What there is not has no rows to delete; a report of nothing would hide a mistyped root.

        Requests: 1 LIST. Raises NoTableError, or LogLostError if there was a table.
        """
        from firnline.state import health

        if not self.about.begins and not (self.begins and self.begins(options)):
            health.require_table(table)

    def plan_data(self, table: Table, figures: Data) -> dict[str, Any]:
        """Return the figures of a plan, with what its page has of the table besides."""
        beside = self.beside(table) if self.beside is not None else {}
        return {"table": table.settings.name, **beside, **figures}

    def page_of_plan(self, table: Table, figures: Data) -> Page:
        """Return the page of a plan, from all of its figures."""
        assert self.plan_page is not None, f"{self.about.noun} is not planned"
        return self.plan_page(self.plan_data(table, figures))

    def run(self, work: Work, options: OptionsT) -> ReportT:
        """Carry it out, once somebody has agreed where it asks.

        Raises:
            UsageError: options that are none; nobody who could agree.
            NoTableError: as ``require_table``.
            others: as the operation's own ``run``; what ``work.consent`` raises.
        """
        options = checked(options, self.about.options)
        self.require_table(work.table, options)
        if self.asks(work, options):
            if work.consent is None:
                raise UsageError(
                    f"nobody can be asked whether {self.question(work)}",
                    next_step="give the consent of somebody who has decided, or plan only",
                )
            options = work.consent(self, work, options)
        return self.act(work, options)

    def judge(self, report: ReportT) -> None:
        """Raise FirnlineError if what a run that changes nothing has found is to fail it."""
        if self.verdict is not None:
            self.verdict(report)

    def asks(self, work: Work, options: OptionsT) -> bool:
        """Return True if somebody has to agree before a run with these options."""
        if not self.about.asks or getattr(options, "dry_run", False):
            return False
        return self.asks_nobody is None or not self.asks_nobody(work, options)

    def question(self, work: Work) -> str:
        """Return what one agrees to: ``rows of flights may go``."""
        return self.about.asks.format(table=work.table.settings.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class About(Generic[OptionsT, PlanT, ReportT]):
    """What there is to know of an operation before it is imported."""

    name: str
    """Its name, and that of its job in ``spark_jobs/``."""
    command: str
    """Subcommand of ``firnline``."""
    noun: str
    """Noun for sentences: ``a merge``."""
    title: str
    """Its effect on one table, as a sentence without its full stop."""
    options: type[OptionsT]
    """Its options (``operations.options``). With ``dry_run`` where there is a plan."""
    asks: str = ""
    """What somebody has to agree to before it runs: ``rows of {table} may go``; empty: nothing."""
    destroys: bool = False
    """Its effect cannot be taken back, so a person's run starts as a dry run."""
    only_looks: bool = False
    """There is nothing to plan, so its DAG has no dry run."""

    package: str = ""
    """Its package in ``firnline.operations``; empty: the one that has its name."""
    attribute: str = "OPERATION"
    """Of the module ``operation`` of its package."""
    begins: bool = False
    """It also works where no table is yet, or none that reads."""

    @property
    def module(self) -> str:
        """Full name of the module that describes it further."""
        return f"firnline.operations.{self.package or self.name}.operation"

    def load(self) -> Operation[OptionsT, PlanT, ReportT]:
        """Import the operation."""
        module = import_module(self.module)
        loaded: Operation[OptionsT, PlanT, ReportT] = getattr(module, self.attribute)
        return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class AboutDag(About[OptionsT, PlanT, ReportT]):
    """What there is to know of an operation that DAGs run."""

    dag: DagName
    """Id of its DAG, or prefix of the ids of its DAGs, before ``__`` (``operations.dag_ids``)."""
    lock: Lock | None
    """None: its runs wait for nobody, as appends do."""
    job: bool = False
    """Its DAG submits a Spark job; else the task does the work itself, and no JVM starts."""
    shares_lock: bool = False
    """Runs of it may work beside each other, as many as the lock has slots (``merge.slots``), and
    beside nothing else that holds the lock."""
    may_share: bool = False
    """Runs of it share the lock as ``shares_lock`` says where the table's settings ask for it
    (``rewrite.beside_merges``): they work on parts of a table that they name."""
    once: bool = False
    """A run that has completed is done again only when it is told so: of work that does what the
    run's params say. What follows from the table as it is may run at any time."""
    one_transaction: str = ""
    """Name in the history of the only transaction of a run; empty if a run may have several."""
    follows_settings: bool = True
    """Its plan first makes the table say what the settings say, where that is harmless, and refuses
    to go on where it is not. Not of work that looks, appends, deletes garbage or repairs."""
    changes_table: bool = True
    """Its effect is part of the table's history, and an event on an asset of the table. Not of an
    import: that is an append, and has no transaction."""
    keeps_rows: bool = False
    """The table has the same rows after it, so that its event wakes nobody who waits for rows."""


AnyDag = AboutDag[Any, Any, Any]
"""One of them, whichever it is."""
