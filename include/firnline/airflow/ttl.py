"""Time to live as the work of a DAG. ``dags/ttl.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.airflow.figures import time_text
from firnline.airflow.work import InTaskWork
from firnline.operations.registry import TTL
from firnline.operations.ttl.options import TtlOptions
from firnline.units import about_size


class TtlWork(InTaskWork[TtlOptions]):
    """Drops partitions whose whole time span is past their time to live."""

    about = TTL

    def plan_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, each partition to drop, and the reasons for keeping the others."""
        total = f"{figures['parts']} parts ({about_size(figures['bytes'])})"
        before = f"what ended before {time_text(figures['cutoff_ms'])} UTC goes"
        lines = [f"as of transaction {figures['seq']}: {before}: {total}, {_rows(figures)}"]
        lines += [
            f"goes: {each['partition'] or '(none)'}: {each['parts']} parts, {each['rows']} rows"
            for each in figures["partitions"]
        ]
        more = figures.get("partitions_in_all", 0) - len(figures["partitions"])
        lines += [f"and {more} partitions more"] if more > 0 else []
        return lines + [f"{count} stay: {why}" for why, count in figures["kept"].items()]

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return totals, and the reasons for keeping the other partitions."""
        gone = f"{figures['partition_count']} partitions, {figures['parts']} parts"
        dropped = f"dropped: {gone} ({about_size(figures['bytes'])}), {_rows(figures)}"
        return [dropped, *(f"{count} stay: {why}" for why, count in figures["kept"].items())]


def _rows(figures: Mapping[str, Any]) -> str:
    uncounted = figures["parts_without_rows"]
    more = f" and those of {uncounted} parts that do not say how many" if uncounted else ""
    return f"{figures['rows']} rows{more}"
