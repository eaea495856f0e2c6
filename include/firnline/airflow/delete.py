"""Delete where, as work of a DAG. ``dags/delete_where.py`` makes the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.params import partition_globs, partitions_param
from firnline.airflow.work import SparkWork
from firnline.operations.registry import DELETE
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.operations.delete.run import DeleteOptions


class DeleteWork(SparkWork["DeleteOptions"]):
    """Rows that a predicate is true for go."""

    about = DELETE

    def params(self) -> dict[str, Param]:
        """Which rows, and when they leave the parts."""
        return {
            "where": Param(
                None,  # is refused: a run needs one
                type="string",
                minLength=1,
                title="Rows to delete",
                description_md="A condition in SQL, such as `carrier = 'AA' and dep_delay > 60`, "
                "or a predicate as JSON.",
            ),
            "partitions": partitions_param(),
            "mode": Param(
                None,
                enum=[None, "eager", "lazy"],
                type=["string", "null"],
                title="Mode",
                description_md="`eager` rewrites the parts that hold such rows at once; `lazy` "
                "hides the rows at once and leaves the rest to the next merge. Empty: `deletes` of "
                "the table's settings.",
            ),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> DeleteOptions:
        """Raises UsageError: partitions are no list of globs."""
        from firnline.operations.delete.run import DeleteOptions

        return DeleteOptions(
            where=params["where"],
            partitions=partition_globs(params.get("partitions")),
            mode=params.get("mode"),
            dry_run=dry_run,
        )

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Totals, each group that is read, and why the other parts are left alone."""
        return [f"as of transaction {figures['seq']}, {figures['mode']}:", *reading_lines(figures)]


def reading_lines(figures: Mapping[str, Any]) -> list[str]:
    """What a delete or an erase would read, for a task's log."""
    size = about_size(figures["bytes_in"])
    lines = [f"{figures['parts_to_read']} parts to read ({size}); those with such rows go"]
    dropped = figures["parts_to_drop"]
    lines += [f"{dropped} parts of {figures['rows_to_drop']} such rows go unread"] * (dropped > 0)
    lines += [
        f"partition {group['partition'] or '(none)'}: {group['parts']} parts, "
        f"{about_size(group['bytes'])}"
        for group in figures["groups"]
    ]
    return lines + [f"{n} parts left alone: {why}" for why, n in figures["left_alone"].items()]
