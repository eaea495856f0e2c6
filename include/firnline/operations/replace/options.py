"""Options of a replace."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Mode, Option


class ReplaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a replace."""

    files: Annotated[
        tuple[str, ...],
        Option(
            "New rows",
            "Parquet files with the new rows, or folders of them: URLs in the table's bucket, such "
            "as `s3://bucket/staged/2024-03-05/`, or paths where the command runs.",
            metavar="[FILES]",
            argument=True,
        ),
    ] = ()
    start: Annotated[
        str | int | float,
        Option("Start", "Start of the interval, inclusive: `2024-03-05T07:00`.", metavar="VALUE"),
    ]
    """In the form of docs/format.md, or as text."""
    end: Annotated[
        str | int | float,
        Option("End", "End of the interval, exclusive: `2024-03-05T08:00`.", metavar="VALUE"),
    ]
    column: Annotated[
        str | None,
        Option(
            "Column",
            "Column of times, dates or numbers; a row with a null there is never replaced.",
            absent="the time of `partition_by`, of `ttl.column`, or the first of `sort_by`",
            metavar="NAME",
        ),
    ] = None
    nothing: Annotated[
        bool, Option("Nothing", "Instead of new rows: the interval is empty afterwards.")
    ] = False
    equal: Annotated[
        dict[str, str | int | float | bool],
        Option(
            "Equal",
            "Only rows that have these values, such as `client=1234`.",
            metavar="COLUMN=VALUE",
            flag="--where-equal",
        ),
    ] = {}
    partition: Annotated[
        str | None,
        Option(
            "Partition",
            "Path of all new rows, such as `d=2026-01-31`; only for a table without "
            "`partition_by`.",
            metavar="PATH",
        ),
    ] = None
    mode: Annotated[
        Mode | None,
        Option(
            "Mode",
            "Parts that the interval cuts: `eager` rewrites them at once, `lazy` leaves them to "
            "the next merge.",
            absent="`deletes` of the table's settings",
        ),
    ] = None
    dry_run: DryRun = False
