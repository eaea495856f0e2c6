"""The tasks of a merge: plan, merge, report. ``dags/merge.py`` puts them together."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped

from firnline.airflow.access import (
    driver_environment,
    open_in_task,
    spark_connection,
    store_access,
)
from firnline.airflow.failures import airflow_failures
from firnline.airflow.params import merge_options
from firnline.airflow.submit import SubmitHook, deploy_options
from firnline.settings import TableSettings
from firnline.spark_conf import with_defaults
from firnline.units import about_size

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firnline.history import RunReport
    from firnline.operations.merge import MergeOptions
    from firnline.plan.merge import MergePlan

_LOG = logging.getLogger(__name__)

_SHOWN = 50
"""Groups and partitions named in XCom and log; a first run on a large table has thousands."""

RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=15),
}
"""For errors that pass; whatever does not fails at once (``firnline.airflow.failures``)."""


class PlanMerge(BaseOperator):
    """Reads the log and decides; without Spark, and the last task where nothing is to be done.

    XCom: figures of the plan (``seq`` of the snapshot, parts and bytes in, parts out, requests,
    groups, reasons for what is left alone).
    """

    def __init__(self, *, table: TableSettings, **more: Any) -> None:
        super().__init__(**more)
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan. Skips what comes after when there is nothing to do, and for a dry run."""
        with airflow_failures():
            options = merge_options(context["params"], context["dag_run"].conf)
            if woken_by_itself(context):
                self._skip(context, {}, "only its own last run woke this one: nothing is new")
            from firnline.operations.merge import preview

            plan = preview(open_in_task(self.table), options)
        figures = plan_figures(plan, options)
        for line in plan_lines(figures):
            _LOG.info(line)
        if plan.nothing_to_do:
            self._skip(context, figures, "nothing to do")
        if options.dry_run:
            self._skip(context, figures, "a dry run ends here")
        return figures

    def _skip(self, context: Context, figures: dict[str, Any], why: str) -> None:
        context["ti"].xcom_push("return_value", figures)
        _LOG.info("%s: %s", self.table.name, why)
        raise DownstreamTasksSkipped(  # type: ignore[no-untyped-call] # Airflow's
            tasks=sorted(self.downstream_task_ids)
        )


class SubmitMerge(SparkSubmitOperator):
    """Runs ``spark_jobs/merge.py`` on the table's cluster, once what it needs is known."""

    def __init__(self, *, table: TableSettings, application: Path, **more: Any) -> None:
        super().__init__(
            application=str(application),
            conn_id=table.spark.conn_id,
            conf=with_defaults(
                table.spark.conf, table.merge.kernel_memory, table.merge.kernel_threads
            ),
            name=f"firnline merge {table.name}",
            **more,
        )
        self.table = table

    def execute(self, context: Context) -> None:
        """Submit and wait for the end. The run's identity goes into the table's history."""
        with airflow_failures():
            options = merge_options(context["params"], context["dag_run"].conf)
            self.application_args = merge_arguments(self.table, options, context)
            for name, value in deploy_options(spark_connection(self.table)).items():
                setattr(self, name, value)
            self._hook = self._get_hook()
            self._hook.check()
        super().execute(context)

    def _get_hook(self) -> SubmitHook:
        return SubmitHook(
            driver_env=driver_environment(store_access(self.table)),
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            track_driver_via_k8s_api=self._track_driver_via_k8s_api,
            yarn_track_via_rm_api=self._yarn_track_via_rm_api,
        )


class ReportMerge(BaseOperator):
    """Reads from the table's own history what this run committed, also when it failed half-way.

    XCom and asset event: the run's transactions and counts.
    """

    def __init__(self, *, table: TableSettings, asset: Asset, **more: Any) -> None:
        super().__init__(outlets=[asset], **more)
        self.table = table
        self.asset = asset

    def execute(self, context: Context) -> dict[str, Any]:
        """Report. Skips itself when nothing was committed: then there is no event either."""
        from firnline.history import run_report
        from firnline.log.txn_file import RunIdentity

        planned: dict[str, Any] = context["ti"].xcom_pull(task_ids="plan")
        run = RunIdentity(dag_id=self.dag_id, run_id=context["run_id"])
        with airflow_failures():
            report = run_report(open_in_task(self.table), run, planned["seq"])
        figures = report_figures(report)
        context["outlet_events"][self.asset].extra = figures
        if not report.transactions:
            context["ti"].xcom_push("return_value", figures)
            raise AirflowSkipException(f"this run committed nothing to {self.table.name}")
        counts = report.counts
        _LOG.info(
            "%s: %d parts (%s, %d rows) became %d (%s, %d rows) in %d transactions",
            self.table.name,
            counts.parts_in,
            about_size(counts.bytes_in),
            counts.rows_in,
            counts.parts_out,
            about_size(counts.bytes_out),
            counts.rows_out,
            len(report.transactions),
        )
        return figures


def woken_by_itself(context: Context) -> bool:
    """True when all that started this run were events of this very DAG's own merges.

    A merge is an event of the table's asset for whoever follows it, and this DAG follows it too.
    """
    dag_id = context["dag"].dag_id
    if not str(context["run_id"]).startswith("asset_triggered__"):
        return False
    events = [e for found in context["triggering_asset_events"].values() for e in found]
    return bool(events) and all(e.source_dag_id == dag_id for e in events)


def merge_arguments(table: TableSettings, options: MergeOptions, context: Context) -> list[str]:
    """Arguments of ``spark_jobs/merge.py``: what to do and who does it; nothing secret."""
    dag_run = context["dag_run"]
    arguments = {
        "--dag-id": context["dag"].dag_id,
        "--run-id": context["run_id"],
        "--try-number": str(context["ti"].try_number),
        "--user": dag_run.triggering_user_name or "",
        "--max-bytes": None if options.max_bytes is None else str(options.max_bytes),
    }
    given = [f"{name}={value}" for name, value in arguments.items() if value]
    return [table.name, *given, *(f"--partition={glob}" for glob in options.partitions)]


def plan_figures(plan: MergePlan, options: MergeOptions) -> dict[str, Any]:
    """The plan as plain data, short enough for XCom."""
    figures = plan.to_json()
    return {**figures, "groups": figures["groups"][:_SHOWN], "dry_run": options.dry_run}


def plan_lines(figures: Mapping[str, Any]) -> list[str]:
    """The plan for the task's log: totals, groups, and why the rest is left alone."""
    size = about_size(figures["bytes_in"])
    becomes = f"{figures['parts_in']} parts ({size}) become {figures['parts_out']}"
    lines = [f"as of transaction {figures['seq']}: {becomes}, about {figures['requests']} requests"]
    lines += [
        f"partition {group['partition'] or '(none)'}: {group['parts']} parts, "
        f"{about_size(group['bytes'])}"
        for group in figures["groups"]
    ]
    more = figures["parts_out"] - len(figures["groups"])
    lines += [f"and {more} groups more"] if more > 0 else []
    return lines + [f"{n} parts left alone: {why}" for why, n in figures["left_alone"].items()]


def report_figures(report: RunReport) -> dict[str, Any]:
    """The report as plain data, short enough for XCom and an asset event."""
    # Lists: Airflow shows a tuple as text.
    return {
        **report.to_json(),
        "transactions": list(report.transactions),
        "partitions": list(report.partitions[:_SHOWN]),
        "partitions_changed": len(report.partitions),
    }
