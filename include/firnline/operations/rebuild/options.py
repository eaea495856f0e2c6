"""Options of a rebuild."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class RebuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a rebuild."""

    include: Annotated[
        tuple[str, ...],
        Option(
            "Include",
            "Globs over keys or file names: undecided objects that are parts of the table.",
            metavar="GLOB",
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Option(
            "Exclude",
            "Globs over keys or file names: objects that nothing names and that are not parts of "
            "the table.",
            metavar="GLOB",
        ),
    ] = ()
    force: Annotated[
        bool,
        Option(
            "Force", "Also rebuild a log that reads and lacks nothing that a transaction names."
        ),
    ] = False
    dry_run: DryRun = False
