"""The merge as the work of a DAG. ``graphs.merge`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firnline.airflow.figures import parts_text
from firnline.airflow.tasks import PlanOperation
from firnline.airflow.work import SparkWork
from firnline.operations.dag_ids import parse_dag_id
from firnline.operations.options import MergeOptions
from firnline.operations.registry import IMPORT, MERGE
from firnline.units import about_size, counted

if TYPE_CHECKING:
    from airflow.sdk import Context


class MergeWork(SparkWork[MergeOptions]):
    """Merges small parts into large sorted ones."""

    about = MERGE

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return one line of totals."""
        before, after = (_amount(figures["counts"], end) for end in ("in", "out"))
        commits = counted(len(figures["transactions"]), "transaction")
        return [f"{before} became {after} in {commits}"]


def _amount(counts: Mapping[str, int], end: str) -> str:
    parts, size, rows = (counts.get(f"{what}_{end}", 0) for what in ("parts", "bytes", "rows"))
    return f"{parts_text(parts)} ({about_size(size)}, {counted(rows, 'row')})"


class PlanMerge(PlanOperation):
    """Plans a merge, unless only firnline's own runs on the table triggered this run."""

    def idle(self, context: Context) -> str | None:
        """Return the reason to skip if only firnline's own events triggered the run."""
        if woken_by_itself(context, self.table.of_run(context).name):
            return "only firnline's own last run triggered this one: nothing is new"
        return None


def woken_by_itself(context: Context, table: str) -> bool:
    """Return True if only asset events of firnline's own DAGs of this table triggered the run.

    Those DAGs also emit events of the table's asset, which the merge is scheduled on; but only
    appends give it work to do, imports among them.
    """
    if not str(context["run_id"]).startswith("asset_triggered__"):
        return False
    events = [e for found in context["triggering_asset_events"].values() for e in found]
    return bool(events) and all(_is_ours(e.source_dag_id, table) for e in events)


def _is_ours(dag_id: str | None, table: str) -> bool:
    dag = parse_dag_id(dag_id or "")
    return dag is not None and dag.operation != IMPORT.dag and dag.table in (None, table)
