"""The description of an operation as plain data: names, lock, what it destroys, how it is loaded.

``operations.registry`` has one of each. DAGs, Spark jobs and pools take from it what they need to
know; its planning, work and reports stay in its own package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    # Airflow parses what imports this again and again.
    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.settings.sections import Operation as DagName
    from firnline.table import Table

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)
"""An operation's options."""

Lock = Literal["merge", "cleanup"]
"""The Airflow pool of the table that its runs hold: of operations that replace parts, or of those
that delete objects (``operations.pools``)."""

Progress = Callable[[Any], None]
"""Callback for the progress of a run, in whatever units the operation counts."""


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


Run = Callable[
    ["Table", Callable[[], "Engine"], OptionsT, "RunIdentity", Progress],
    Figures,
]
"""Plans and acts. Takes a table, what starts an engine, options, who runs it, and a callback."""


def without_engine(
    run: Callable[[Table, OptionsT, RunIdentity, Progress], Figures],
) -> Run[OptionsT]:
    """Adapt an operation that opens no part."""

    def call(
        table: Table,
        _engine: Callable[[], Engine],
        options: OptionsT,
        identity: RunIdentity,
        progress: Progress,
    ) -> Figures:
        return run(table, options, identity, progress)

    return call


def without_progress(
    run: Callable[[Table, OptionsT, RunIdentity], Figures],
) -> Run[OptionsT]:
    """Adapt an operation that is one transaction, with no progress between plan and commit."""

    def call(
        table: Table,
        _engine: Callable[[], Engine],
        options: OptionsT,
        identity: RunIdentity,
        _progress: Progress,
    ) -> Figures:
        return run(table, options, identity)

    return call


@dataclass(frozen=True, slots=True)
class Loaded(Generic[OptionsT]):
    """The code of an operation, imported on demand because the import takes time."""

    preview: Callable[[Table, OptionsT], Figures] | None
    """Plans, and does nothing; None for an operation that only reads."""
    run: Run[OptionsT]
    """Runs the operation. An error with a ``report`` has the report logged before the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[OptionsT]):
    """One operation."""

    name: str
    """Name of its package in ``firnline.operations``, and of its job in ``spark_jobs/``."""
    command: str
    """Subcommand of ``firnline``."""
    dag: DagName
    """Id of its DAG, or prefix of the ids of its DAGs, before ``__`` (``operations.dag_ids``)."""
    noun: str
    """Noun for sentences: ``a merge``."""
    title: str
    """Its effect on one table, as a sentence without its full stop."""
    lock: Lock | None
    """None: its runs wait for nobody, as appends do."""
    options: type[OptionsT]
    """Its options (``operations.options``). With ``dry_run`` where there is a plan."""
    load: Callable[[], Loaded[OptionsT]]
    job: bool = False
    """Its DAG submits a Spark job; else the task does the work itself, and no JVM starts."""
    destroys: bool = False
    """Its effect cannot be taken back, so a person's run starts as a dry run."""
    shares_lock: bool = False
    """Runs of it may work beside each other, as many as the lock has slots (``merge.slots``), and
    beside nothing else that holds the lock."""
    once: bool = False
    """A run that has completed is done again only when it is told so: of work that does what the
    run's params say. What follows from the table as it is may run at any time."""
    one_transaction: str = ""
    """Name in the history of the only transaction of a run; empty if a run may have several."""
    only_looks: bool = False
    """There is nothing to plan, so its DAG has no dry run."""
    follows_settings: bool = True
    """Its plan first makes the table say what the settings say, where that is harmless, and refuses
    to go on where it is not. Not of work that looks, appends, deletes garbage or repairs."""
    changes_table: bool = True
    """Its effect is part of the table's history, and an event on an asset of the table. Not of an
    import: that is an append, and has no transaction."""
    keeps_rows: bool = False
    """The table has the same rows after it, so that its event wakes nobody who waits for rows."""
