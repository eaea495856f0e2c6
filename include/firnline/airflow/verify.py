"""The check of a table as the work of a DAG. ``dags/verify.py`` creates the DAGs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firnline.airflow.work import InTaskWork
from firnline.operations.registry import VERIFY
from firnline.operations.verify.options import VerifyOptions
from firnline.units import about_size

if TYPE_CHECKING:
    from firnline.operations.verify.run import VerifyReport


class VerifyWork(InTaskWork[VerifyOptions]):
    """Compares the log, the transactions and the objects with each other."""

    about = VERIFY

    def options(self, params: Mapping[str, Any], *, dry_run: bool) -> VerifyOptions:  # noqa: ARG002
        """Return the options, never deep: the Spark job after it reads the footers."""
        return VerifyOptions()

    def verdict(self, report: VerifyReport) -> None:
        """Raise FindingsError if there are findings other than notes."""
        from firnline.operations.verify.run import refuse_findings

        refuse_findings(report)

    def report_lines(self, figures: Mapping[str, Any]) -> list[str]:
        """Return what was checked, and the findings."""
        checked, found = figures["checked"], figures["severities"]
        each = (
            f"{checked['log_files']} log files",
            f"{checked['transactions']} transactions",
            f"{checked['live_parts']} live and {checked['dead_parts']} dead parts",
            f"{checked['objects']} objects ({about_size(checked['bytes'])})",
            f"{checked['footers']} footers",
        )
        counts = ", ".join(f"{count} {severity}s" for severity, count in found.items())
        lines = [f"checked: {', '.join(each)}", f"found: {counts or 'nothing'}"]
        lines += [
            f"{finding['severity']}: {finding['object']} {finding['sentence']}"
            for finding in figures["findings"]
        ]
        more = figures.get("findings_in_all", 0) - len(figures["findings"])
        return [*lines, f"and {more} more"] if more > 0 else lines
