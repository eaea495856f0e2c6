"""Options of a clean-up."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class CleanupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a clean-up."""

    dry_run: DryRun = False
    max_deletes: Annotated[
        int | None,
        Option(
            "Objects to delete at most",
            "At most this many in one run; the rest waits for the next.",
            absent="`cleanup.max_deletes_per_run` of the table's settings",
            metavar="N",
            least=1,
        ),
    ] = None
    old_types: Annotated[
        bool,
        Option(
            "Old types",
            "Delete folded log files that state another type than the table's at once, for clients "
            "of version 1, who refuse the table until then. A stream that has not read the appends "
            "in them is behind.",
            form=False,
        ),
    ] = False
