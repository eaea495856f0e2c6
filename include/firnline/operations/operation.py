"""What an operation is, as plain data: its names, its lock, what it destroys, how it is loaded.

``operations.registry`` has one of each. DAGs, Spark jobs and pools take from it what they need to
know; what an operation plans, does and says stays in its own package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    # Airflow parses what imports this again and again.
    from firnline.kernel.engine import Engine
    from firnline.log.txn_file import RunIdentity
    from firnline.settings.sections import Operation as DagName
    from firnline.table import Table

OptionsT = TypeVar("OptionsT")
"""An operation's options: a msgspec.Struct."""

Lock = Literal["merge", "cleanup"]
"""Which Airflow pool of the table its runs hold: of what replaces parts, or of what deletes objects
(``operations.pools``)."""

Progress = Callable[[Any], None]
"""Takes how far a run is, in whatever the operation counts."""


class Figures(Protocol):
    """What every plan and every report can do."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
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
    """Adapt an operation that is one transaction, with nothing to tell between plan and commit."""

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
    """The code of an operation, imported: that costs time, and is done when it is needed."""

    options: type[OptionsT]
    """With a field ``dry_run`` where there is a plan."""
    preview: Callable[[Table, OptionsT], Figures] | None
    """Plans, and does nothing; None for what only looks."""
    run: Run[OptionsT]
    """An error with a ``report`` has that reported before it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[OptionsT]):
    """One operation."""

    name: str
    """Its package in ``firnline.operations``, and its job in ``spark_jobs/``."""
    command: str
    """What follows ``firnline`` on the command line."""
    dag: DagName
    """The ids of its DAGs before ``__``."""
    noun: str
    """For sentences: ``a merge``."""
    title: str
    """What it does to one table, as a sentence without its full stop."""
    lock: Lock
    load: Callable[[], Loaded[OptionsT]]
    job: bool = False
    """Its DAG submits a Spark job; else the task does the work itself, and no JVM starts."""
    destroys: bool = False
    """What it does cannot be taken back, so a person's run starts as a dry run."""
    once: bool = False
    """A run that has completed is done again only when it is told so: of work that does what the
    run's params say. What follows from the table as it is may run at any time."""
    one_transaction: str = ""
    """What the history calls the one transaction of a run, after which nothing is left to do; empty
    where there may be several."""
    only_looks: bool = False
    """There is nothing to plan, so its DAG has no dry run."""
    follows_settings: bool = True
    """Its plan first makes the table say what the settings say, where that is harmless, and refuses
    to go on where it is not. Not of work that looks, deletes garbage or repairs."""
    changes_table: bool = True
    """What it does stands in the table's history, and is news for the table's asset."""
