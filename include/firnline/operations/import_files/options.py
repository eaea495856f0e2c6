"""Options of an import."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an import."""

    source: Annotated[
        str,
        Option(
            "Source",
            "URL of the folder, in the table's bucket (`file://`: below the table's parent "
            "folder).",
            metavar="SOURCE",
            argument=True,
        ),
    ]
    again: Annotated[
        bool,
        Option(
            "Again",
            "Also import a folder that was imported before: its rows are then in the table twice.",
        ),
    ] = False
    dry_run: DryRun = False
