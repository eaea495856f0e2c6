"""Works of DAGs that are a plan and a run: params are the options, lines come from the figures.

Those that ask a person, or have tasks of their own, have modules of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from firnline.airflow.figures import parts_text, time_text
from firnline.airflow.settings import current_settings
from firnline.airflow.work import InTaskWork, SparkWork
from firnline.errors import UsageError
from firnline.next_steps import GIVE_PARTITIONS
from firnline.operations.dag_ids import parse_dag_id
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
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.table import Table

_LOG = logging.getLogger(__name__)


class TtlWork(InTaskWork[TtlOptions]):
    """Drops partitions whose whole time span is past their time to live."""

    about = TTL

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each partition to drop, and the reasons for keeping the others."""
        total = f"{parts_text(figures['parts'])} ({about_size(figures['bytes'])})"
        before = f"what ended before {time_text(figures['cutoff_ms'])} UTC goes"
        lines = [f"as of transaction {figures['seq']}: {before}: {total}, {_past_rows(figures)}"]
        lines += [
            f"goes: {each['partition'] or '(none)'}: {parts_text(each['parts'])}, "
            f"{counted(each['rows'], 'row')}"
            for each in figures["partitions"]
        ]
        more = figures.get("partitions_in_all", 0) - len(figures["partitions"])
        lines += [f"and {counted(more, 'partition')} more"] if more > 0 else []
        return lines + _kept_lines(figures)

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and the reasons for keeping the other partitions."""
        gone = f"{counted(figures['partition_count'], 'partition')}, {parts_text(figures['parts'])}"
        dropped = f"dropped: {gone} ({about_size(figures['bytes'])}), {_past_rows(figures)}"
        return [dropped, *_kept_lines(figures)]


def _kept_lines(figures: Mapping[str, Any]) -> list[str]:
    kept = figures["kept"].items()
    return [f"{counted(count, 'partition')} left alone: {why}" for why, count in kept]


def _past_rows(figures: Mapping[str, Any]) -> str:
    uncounted = figures["parts_without_rows"]
    more = f" and those of {parts_text(uncounted)} without a count" if uncounted else ""
    return f"{counted(figures['rows'], 'row')}{more}"


class CleanupWork(InTaskWork[CleanupOptions]):
    """Deletes objects that no state within the grace needs."""

    about = CLEANUP

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and what has to wait until when."""
        return [f"to delete: {_amounts(figures)}", *_waiting_lines(figures)]

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and what has to wait until when."""
        not_deleted = (
            [f"not deleted: {counted(figures['failed'], 'object')}"] if figures["failed"] else []
        )
        return [f"deleted: {_amounts(figures)}", *not_deleted, *_waiting_lines(figures)]

    def changed(self, figures: Mapping[str, Any]) -> bool:
        """Return True if anything was deleted: log files go without a transaction."""
        return any(figures[name] for name in ("parts", "log_files", "txn_files", "claims"))


def _amounts(figures: Mapping[str, Any]) -> str:
    kinds = [("parts", "part"), ("log_files", "log file"), ("txn_files", "transaction")]
    kinds += [("claims", "old claim")] if figures["claims"] else []
    each = ", ".join(counted(figures[name], noun) for name, noun in kinds)
    return f"{each} ({about_size(figures['bytes'])})"


def _waiting_lines(figures: Mapping[str, Any]) -> list[str]:
    lines = []
    for each in figures["waiting"]:
        until = each["last_ms"]
        when = "" if until is None else f" (the last of them until {time_text(until)} UTC)"
        what = counted(each["count"], each["what"].removesuffix("s"))
        lines.append(f"{what} ({about_size(each['bytes'])}) left: {each['reason']}{when}")
    return lines


_SHOWN = 20
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

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what is restored and removed, the undone transactions, and the partitions."""
        undone = ", ".join(map(str, figures["undone"])) or "none"
        names = [name or "(none)" for name in figures["partitions"]]
        more = figures.get("partitions_in_all", len(names)) - _SHOWN
        return [
            f"as of transaction {figures['seq']}, back to {figures['to']}; undone: {undone}",
            f"comes back: {_part_figures(figures['restored'])}",
            f"goes: {_part_figures(figures['removed'])}",
            f"stays: {parts_text(figures['kept_parts'])}",
            *(f"in {name}" for name in names[:_SHOWN]),
            *([f"and {counted(more, 'partition')} more"] if more > 0 else []),
        ]

    def plan_sentence(self, figures: Mapping[str, Any]) -> str:
        """Return what is undone, with the parts and rows that come back and go."""
        return "; ".join(self.plan_lines(figures)[:3])

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what was restored and what was removed."""
        plan = figures["plan"]
        back, gone = _part_figures(plan["restored"]), _part_figures(plan["removed"])
        return [f"restored: {back}; removed: {gone}; transaction {figures['transaction']}"]


def newest_lines(table: Table) -> list[str]:
    """Return a line for each of the newest transactions: number, time, operation, by whom."""
    from firnline.state.history import by_whom, history

    lines = [
        f"transaction {each.seq}, {time_text(each.t)} UTC: {each.op}, {by_whom(each.run)}"
        for each in history(table, _OFFERED)
    ]
    return ["to restore to, the newest first:", *lines] if lines else []


def _part_figures(found: Mapping[str, Any]) -> str:
    rows, size = counted(found["rows"], "row"), about_size(found["bytes"])
    return f"{parts_text(found['parts'])} of {rows} ({size})"


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
        named = parse_dag_id(context["dag"].dag_id)
        name = None if named is None else named.table_of(context["dag_run"].conf)
        settings = known.get(name or "")
        seen = () if settings is None else of_events(settings)
        return structs.replace(options, witness=(*options.witness, *seen))

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what was checked, and the findings."""
        checked, found = figures["checked"], figures["severities"]
        each = (
            f"{counted(checked['log_files'], 'log file')}",
            f"{counted(checked['transactions'], 'transaction')}",
            f"{checked['live_parts']:,} live and {counted(checked['dead_parts'], 'dead part')}",
            f"{counted(checked['objects'], 'object')} ({about_size(checked['bytes'])})",
            *_opened(figures),
        )
        counts = ", ".join(counted(count, severity) for severity, count in found.items())
        lines = [f"checked: {', '.join(each)}", f"found: {counts or 'nothing'}"]
        lines += [
            f"{finding['severity']}: {finding['object']} {finding['sentence']}"
            for finding in figures["findings"]
        ]
        more = figures.get("findings_in_all", 0) - len(figures["findings"])
        return [*lines, f"and {more} more"] if more > 0 else lines


def _opened(figures: Mapping[str, Any]) -> list[str]:
    """Return what a deep check has opened."""
    checked, found = figures["checked"], []
    if figures["deep"]:
        rows, footers = counted(checked["footer_rows"], "row"), checked["footers"]
        states = "states" if footers == 1 else "state"
        found.append(f"{counted(footers, 'footer')} that {states} {rows}")
    if figures["rows"]:
        read, rows = counted(checked["read_parts"], "part"), counted(checked["read_rows"], "row")
        found.append(f"all {rows} of {read}")
    if unstated := checked["unstated_parts"]:
        found.append(f"{counted(unstated, 'part')} without a digest to compare them with")
    return found


class DeleteWork(SparkWork[DeleteOptions]):
    """Deletes the rows for which a predicate is true."""

    about = DELETE

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each group to read, and the reasons for leaving other parts alone."""
        return [f"as of transaction {figures['seq']}, {figures['mode']}:", *reading_lines(figures)]


def reading_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return log lines on the parts that a delete or an erase would read."""
    size = about_size(figures["bytes_in"])
    lines = [f"{parts_text(figures['parts_to_read'])} to read ({size}); those with such rows go"]
    dropped = figures["parts_to_drop"]
    lines += [f"{parts_text(dropped)} of {figures['rows_to_drop']} such rows go unread"] * (
        dropped > 0
    )
    lines += [
        f"partition {group['partition'] or '(none)'}: {parts_text(group['parts'])}, "
        f"{about_size(group['bytes'])}"
        for group in figures["groups"]
    ]
    return lines + [
        f"{parts_text(n)} left alone: {why}" for why, n in figures["left_alone"].items()
    ]


class ReplaceWork(SparkWork[ReplaceOptions]):
    """Replaces the rows of an interval by staged rows."""

    about = REPLACE

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> ReplaceOptions:
        """Return the options. Raises UsageError unless one of files and nothing is given."""
        options = super().options(params, dry_run=dry_run)
        if bool(options.files) == options.nothing:
            given = "both are" if options.nothing else "neither is"
            raise UsageError(
                f"a replace takes either `files` or `nothing`, and {given} given",
                next_step='say where the new rows are, as "files": ["s3://bucket/staged/"], or '
                'that there are none, as "nothing": true',
            )
        return options

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return the interval and its rows, the parts that are dropped or read, why others stay."""
        from firnline.operations.replace.plan import new_rows_text, rows_text

        equal = "".join(f", {column} = {value}" for column, value in figures["equal"].items())
        size = about_size(figures["bytes_in"])
        dropped, rows = figures["parts_to_drop"], figures["rows_to_drop"]
        interval = f"{figures['column']} from {figures['start']} to {figures['end']}{equal}"
        plan = f"as of transaction {figures['seq']}, {figures['mode']}: {interval}"
        return [
            f"{plan}: {rows_text(figures)}",
            new_rows_text(figures),
            f"{parts_text(dropped)} of {counted(rows, 'row')} lie inside and go unread",
            f"{parts_text(figures['parts_to_read'])} to read ({size}), which the interval may cut",
            *(f"{parts_text(n)} left alone: {why}" for why, n in figures["left_alone"].items()),
        ]
