"""An import, as every door takes it."""

from __future__ import annotations

from firnline.operations import registry
from firnline.operations.import_files.folders import import_folders, preview
from firnline.operations.import_files.pages import (
    folders_plan_page,
    folders_report_page,
    plan_page,
    report_page,
)
from firnline.operations.import_files.run import preview as preview_folder
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportFoldersOptions, ImportOptions
from firnline.operations.operation import Operation


def _stopped(table: str, _: ImportFoldersOptions | ImportOptions) -> tuple[str, str]:
    return (
        f"the files of a folder are in {table} all together or not at all",
        f"see `firnline parts {table}`, then run it again",
    )


OPERATION = Operation(
    about=registry.IMPORT,
    preview=preview,
    act=import_folders,
    plan_page=folders_plan_page,
    report_page=folders_report_page,
    stopped=_stopped,
)
FOLDER = Operation(
    about=registry.IMPORT_FOLDER,
    preview=preview_folder,
    act=run_import,
    plan_page=plan_page,
    report_page=report_page,
    stopped=_stopped,
)
