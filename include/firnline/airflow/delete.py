"""Delete by a condition as the work of a DAG. ``dags/delete_where.py`` creates the DAGs."""

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
    """Deletes the rows for which a predicate is true."""

    about = DELETE

    def params(self) -> dict[str, Param]:
        """Return the params: the condition, the partitions and the mode."""
        return {
            "where": Param(
                None,  # fails validation: a run needs a value
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
        """Return the options. Raises UsageError if partitions is not a list of globs."""
        from firnline.operations.delete.run import DeleteOptions

        return DeleteOptions(
            where=params["where"],
            partitions=partition_globs(params.get("partitions")),
            mode=params.get("mode"),
            dry_run=dry_run,
        )

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each group to read, and the reasons for leaving other parts alone."""
        return [f"as of transaction {figures['seq']}, {figures['mode']}:", *reading_lines(figures)]


def reading_lines(figures: Mapping[str, Any]) -> list[str]:
    """Return log lines on the parts that a delete or an erase would read."""
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
