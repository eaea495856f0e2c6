"""Replacement of an interval as the work of a DAG. ``dags/replace.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.work import SparkWork
from firnline.errors import UsageError
from firnline.operations.registry import REPLACE
from firnline.operations.replace.options import ReplaceOptions
from firnline.units import about_size


class ReplaceWork(SparkWork[ReplaceOptions]):
    """Replaces the rows of an interval by staged rows."""

    about = REPLACE

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> ReplaceOptions:
        """Return the options. Raises UsageError unless one of files and nothing is given."""
        options = super().options(params, dry_run=dry_run)
        if bool(options.files) == options.nothing:
            given = "both" if options.nothing else "neither"
            raise UsageError(
                f"a replace takes files or nothing, and {given} is given",
                next_step='say where the new rows are, as "files": ["s3://bucket/staged/"], or '
                'that there are none, as "nothing": true',
            )
        return options

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
