"""Imports of a table that repeat: the new files of all folders that its settings name, as one run.

Each folder is an import of its own, one after the other: what one of them has made visible stays
when the next one fails, and a run after that takes what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firnline.errors import FirnlineError, UsageError
from firnline.operations.import_files.plan import ImportPlan
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_files.run import preview as preview_folder
from firnline.operations.import_options import ImportFoldersOptions, ImportOptions
from firnline.operations.operation import Work
from firnline.operations.runner import Report, RunMetrics
from firnline.settings.imports import ImportSettings
from firnline.settings.load import TableSettings
from firnline.table import Table

_SUMS = ("files", "rows", "bytes", "copies", "known", "requests")
_LEFT_OUT = {
    "empty": "without a row",
    "ignored": "no Parquet, hidden or excluded",
    "changed": "written again after they were imported",
}
"""List of a plan -> why what it names is not imported."""


@dataclass(frozen=True, slots=True)
class FoldersPlan:
    """The plan of a run: that of each folder, by its URL."""

    folders: dict[str, ImportPlan]

    @property
    def nothing_to_do(self) -> bool:
        """Return True if there is no file to import, and none of which somebody has to be told."""
        return all(plan.nothing_to_do and not plan.bad for plan in self.folders.values())

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, files that cannot be taken, and a row for each folder."""
        return _totals({url: plan.to_json() for url, plan in self.folders.items()})


class FoldersReport(Report, frozen=True, kw_only=True):
    """Result of a run: totals, files that could not be taken, and a row for each folder."""

    table: str
    dry_run: bool
    files: int
    rows: int
    bytes: int
    copies: int
    """Files that the store has copied."""
    anew: int
    """Files whose rows were read and written."""
    parts_written: int
    """Parts with those rows."""
    known: int
    """Files that imports before took."""
    left_out: dict[str, int]
    """Objects that were not taken, by reason."""
    bad: list[dict[str, Any]]
    """Files that cannot be taken, with the reason."""
    folders: list[dict[str, Any]]
    log_files: list[str]
    """Keys of the log files that made them visible."""
    requests: dict[str, int]
    seconds: float


def options_of(settings: TableSettings, given: ImportFoldersOptions) -> list[ImportOptions]:
    """Return the options of each import of a run.

    Args:
        settings: of the table. Of their options a list holds where none is given, a flag besides.
        given: options of the run.

    Raises UsageError: no folder is named, or one is named twice.
    """
    standing = settings.imports or ImportSettings()
    sources = given.source or standing.source
    if not sources:
        raise UsageError(
            f"an import into table {settings.name} needs a folder, and none was named",
            next_step='give it as "source": ["s3://bucket/folder"], or name it as import.source in '
            "the settings of the table",
        )
    types = tuple(f"{name}={kind}" for name, kind in standing.path_types.items())
    return [
        ImportOptions(
            source=source,
            new=given.new,
            exclude=given.exclude or standing.exclude,
            path_types=given.path_types or types,
            no_path_columns=given.no_path_columns or standing.no_path_columns,
            skip_bad=given.skip_bad or standing.skip_bad,
            split=given.split or standing.split,
            dry_run=given.dry_run,
        )
        for source in dict.fromkeys(sources)
    ]


def preview(table: Table, options: ImportFoldersOptions) -> FoldersPlan:
    """Look at every footer and plan. Requests and errors of ``run.preview``, for each folder."""
    imports = options_of(table.settings, options)
    return FoldersPlan({each.source: preview_folder(table, each) for each in imports})


def import_folders(work: Work, options: ImportFoldersOptions) -> FoldersReport:
    """Import folders one after the other. Requests and errors of ``run_import``, for each.

    An error after another folder has become visible has the report of those as ``report``.
    """
    table = work.table
    metrics, done = RunMetrics(table), dict[str, ImportReport]()

    def report() -> FoldersReport:
        totals = _totals({url: dict(each.plan) for url, each in done.items()})
        del totals["requests"]  # an estimate
        return FoldersReport(
            table=table.settings.name,
            dry_run=options.dry_run,
            parts_written=sum(each.parts_written for each in done.values()),
            log_files=[each.log_file for each in done.values() if each.log_file],
            requests=metrics.requests,
            seconds=metrics.seconds,
            **totals,
        )

    for each in options_of(table.settings, options):
        try:
            done[each.source] = run_import(Work(table, engine=work.engine, tell=work.tell), each)
        except FirnlineError as error:
            if any(one.log_file for one in done.values()):
                error.report = report()  # type: ignore[attr-defined] # as tasks and jobs ask for it
            raise
    return report()


def _totals(plans: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of the plans of folders together, as plain data, and a row for each."""
    every = list(plans.values())
    left_out = {why: sum(len(plan[name]) for plan in every) for name, why in _LEFT_OUT.items()}
    return {
        **{name: sum(plan[name] for plan in every) for name in _SUMS},
        "anew": sum(plan["anew"]["files"] for plan in every),
        "left_out": {why: count for why, count in left_out.items() if count},
        "bad": [bad for plan in every for bad in plan["bad"]],
        "folders": [
            {"source": url, **{name: plan[name] for name in ("files", "rows", "bytes")}}
            for url, plan in plans.items()
        ],
    }
