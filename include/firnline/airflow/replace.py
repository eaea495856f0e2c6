"""Replacement of an interval as the work of a DAG. ``dags/replace.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.params import flag_param, globs
from firnline.airflow.work import SparkWork
from firnline.errors import UsageError
from firnline.operations.registry import REPLACE
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.operations.replace.report import ReplaceOptions


class ReplaceWork(SparkWork["ReplaceOptions"]):
    """Replaces the rows of an interval by staged rows."""

    about = REPLACE

    def params(self) -> dict[str, Param]:
        """Return the params: the interval, and the rows that replace it."""
        return {
            "start": _value_param("Start", "Start of the interval, inclusive: `2024-03-05T07:00`."),
            "end": _value_param("End", "End of the interval, exclusive: `2024-03-05T08:00`."),
            "column": _text_param(
                "Column", "Of times, dates or numbers. Empty: the time that the settings name."
            ),
            "equal": Param(
                None,
                type=["object", "null"],
                additionalProperties={"type": ["string", "number", "boolean"]},
                title="Equal",
                description_md='Only rows that have these values: `{"client": 1234}`.',
            ),
            "files": Param(
                None,
                type=["array", "null"],
                items={"type": "string", "minLength": 1},
                title="New rows",
                description_md="Prefixes and files with staged Parquet, in the table's bucket: "
                "`s3://bucket/staged/2024-03-05/`.",
            ),
            "nothing": flag_param("Nothing", "Instead of files: the interval is empty afterwards."),
            "partition": _text_param(
                "Partition", "Path of all new rows, only for a table without `partition_by`."
            ),
            "mode": Param(
                None,
                enum=[None, "eager", "lazy"],
                type=["string", "null"],
                title="Mode",
                description_md="Parts that the interval cuts: `eager` rewrites them at once, "
                "`lazy` leaves them to the next merge. Empty: `deletes` of the table's settings.",
            ),
        }

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> ReplaceOptions:
        """Return the options. Raises UsageError unless one of files and nothing is given."""
        from firnline.operations.replace.report import ReplaceOptions

        files, nothing = globs("files", params.get("files")), bool(params.get("nothing"))
        if bool(files) == nothing:
            given = "both" if nothing else "neither"
            raise UsageError(
                f"a replace takes files or nothing, and {given} is given",
                next_step='say where the new rows are, as "files": ["s3://bucket/staged/"], or '
                'that there are none, as "nothing": true',
            )
        return ReplaceOptions(
            column=params.get("column"),
            start=params["start"],
            end=params["end"],
            equal=params.get("equal") or {},
            files=files,
            nothing=nothing,
            partition=params.get("partition"),
            mode=params.get("mode"),
            dry_run=dry_run,
        )

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return the interval, the parts dropped unread, the parts read, and why others stay."""
        equal = "".join(f", {column} = {value}" for column, value in figures["equal"].items())
        size = about_size(figures["bytes_in"])
        dropped, rows = figures["parts_to_drop"], figures["rows_to_drop"]
        interval = f"{figures['column']} from {figures['start']} to {figures['end']}{equal}"
        return [
            f"as of transaction {figures['seq']}, {figures['mode']}: {interval}",
            f"{dropped} parts of {rows} rows lie inside and go unread",
            f"{figures['parts_to_read']} parts to read ({size}), which the interval may cut",
            *(f"{n} parts left alone: {why}" for why, n in figures["left_alone"].items()),
        ]


def _text_param(title: str, description_md: str) -> Param:
    return Param(
        None, type=["string", "null"], minLength=1, title=title, description_md=description_md
    )


def _value_param(title: str, description_md: str) -> Param:
    # None fails validation: a run needs a value.
    kinds = ["string", "number"]
    return Param(None, type=kinds, minLength=1, title=title, description_md=description_md)
