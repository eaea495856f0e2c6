"""Works of DAGs that are a plan and a run: params are the options, pages are the operation's.

Those that ask a person, or have tasks of their own, have modules of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from firnline.airflow.figures import time_text
from firnline.airflow.runs import operation_of
from firnline.airflow.settings import current_settings
from firnline.airflow.work import InTaskWork, SparkWork
from firnline.errors import UsageError
from firnline.next_steps import GIVE_PARTITIONS
from firnline.operations.operation import Plan
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    RebuildOptions,
    ReplaceOptions,
    RestoreOptions,
    TtlOptions,
    VerifyOptions,
)
from firnline.operations.registry import CLEANUP, DELETE, REBUILD, REPLACE, RESTORE, TTL, VERIFY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.table import Table

_LOG = logging.getLogger(__name__)


class TtlWork(InTaskWork[TtlOptions]):
    """Drops partitions whose whole time span is past their time to live."""

    about = TTL


class CleanupWork(InTaskWork[CleanupOptions]):
    """Deletes objects that no state within the grace needs."""

    about = CLEANUP

    def changed(self, figures: Mapping[str, Any]) -> bool:
        """Return True if anything was deleted: log files go without a transaction."""
        return any(figures[name] for name in ("parts", "log_files", "txn_files", "claims"))


_OFFERED = 10
"""Transactions that a restore names to go back to."""


class RestoreWork(InTaskWork[RestoreOptions]):
    """Restores partitions to their state after a transaction."""

    about = RESTORE

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> RestoreOptions:
        """Return the options. Raises UsageError if no partitions are given."""
        options = super().options(params, dry_run=dry_run)
        if not options.partitions:
            raise UsageError(
                "a restore needs partitions, and none was named",
                next_step=GIVE_PARTITIONS,
            )
        return options

    def preview(self, table: Table, options: RestoreOptions) -> Plan:
        """Return the plan. Logs the newest transactions first, for who gave another number.

        Requests: 1 LIST and 1 ranged GET for each of them, besides those of the plan.
        """
        for line in newest_lines(table):
            _LOG.info(line)
        return super().preview(table, options)


def newest_lines(table: Table) -> list[str]:
    """Return a line for each of the newest transactions: number, time, operation, by whom."""
    from firnline.state.history import by_whom, history

    lines = [
        f"transaction {each.seq}, {time_text(each.t)} UTC: {each.op}, {by_whom(each.run)}"
        for each in history(table, _OFFERED)
    ]
    return ["to restore to, the newest first:", *lines] if lines else []


class RebuildWork(InTaskWork[RebuildOptions]):
    """Writes a log from parts and transactions."""

    about = REBUILD

    def is_idle(self, plan: Plan) -> bool:  # noqa: ARG002 - as the base class
        """Return False: a table of which nothing is left must fail, which the work itself does."""
        return False


class VerifyWork(InTaskWork[VerifyOptions]):
    """Compares the log, the transactions and the objects with each other."""

    about = VERIFY

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> VerifyOptions:
        """Return the options, which open no part: the Spark job after it does (``footers``)."""
        from firnline.operations.verify.run import refuse_lone_sample

        given = super().options(params, dry_run=dry_run)
        refuse_lone_sample(given)
        return VerifyOptions(witness=given.witness)

    def parse_params(self, context: Context) -> VerifyOptions:
        """Return the options of this run; Airflow's own events on the table are witnesses too."""
        from firnline.airflow.witness import of_events

        options, known = super().parse_params(context), current_settings().tables
        named = operation_of({**context})
        name = None if named is None else named.table_of(context["dag_run"].conf)
        settings = known.get(name or "")
        seen = () if settings is None else of_events(settings)
        return structs.replace(options, witness=(*options.witness, *seen))


class DeleteWork(SparkWork[DeleteOptions]):
    """Deletes the rows for which a predicate is true."""

    about = DELETE


class ReplaceWork(SparkWork[ReplaceOptions]):
    """Replaces the rows of an interval by staged rows."""

    about = REPLACE
