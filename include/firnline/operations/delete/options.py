"""Options of a delete."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Mode, Option, Partitions


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a delete."""

    where: Annotated[
        str,
        Option(
            "Rows to delete",
            "A condition for the rows that go, such as `carrier = 'AA' and dep_delay > 60`: and, "
            "or, not over comparisons of columns with literals, in DuckDB's dialect; or the same "
            "as JSON.",
            metavar="SQL",
        ),
    ]
    """SQL text, or a predicate as JSON (docs/format.md)."""
    partitions: Partitions = ()
    mode: Annotated[
        Mode | None,
        Option(
            "Mode",
            "`eager` rewrites the parts that hold such rows at once; `lazy` hides the rows from "
            "readers at once and leaves the rest to the next merge.",
            absent="`deletes` of the table's settings",
        ),
    ] = None
    dry_run: DryRun = False
