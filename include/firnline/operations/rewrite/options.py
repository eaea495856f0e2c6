"""Options of a rewrite."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class RewriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a rewrite; exactly one of ``where`` and ``sql``."""

    where: Annotated[
        str | None,
        Option(
            "Rows to keep",
            "A condition for the rows that STAY, such as `dep_delay is not null`: and, or, not "
            "over comparisons of columns with literals, in DuckDB's dialect. A row for which it is "
            "false or null goes.",
            metavar="SQL",
        ),
    ] = None
    sql: Annotated[
        str | None,
        Option(
            "Query",
            "Instead of `where`: a SELECT in DuckDB's dialect over `_rows`, the rows of one "
            "partition, such as `select * replace (upper(carrier) as carrier) from _rows`. Its "
            "columns and types must be the table's.",
            metavar="QUERY",
        ),
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        Option(
            "Partitions",
            "Only these, as globs over partition paths such as `ts_month=2013-*`.",
            absent="all partitions",
            in_form="By hand they are needed, `*` is all. In a backfill they narrow what its dates "
            "choose.",
            metavar="GLOB",
        ),
    ] = ()
    start_ms: Annotated[
        int | None,
        Option(
            "From",
            "Only partitions whose whole span of time lies between `--from` and `--until`, which "
            "is exclusive, as `2013-02-01`; both or neither.",
            metavar="TIME",
            flag="--from",
            form=False,
            unit="time",
        ),
    ] = None
    """Unix ms."""
    end_ms: Annotated[
        int | None,
        Option(
            "Until",
            "End of that span, exclusive; see `--from`.",
            metavar="TIME",
            flag="--until",
            form=False,
            unit="time",
        ),
    ] = None
    """Unix ms."""
    force: Annotated[
        bool,
        Option(
            "Force",
            "Also rewrite partitions that lose more rows than `rewrite.max_removed_fraction` "
            "allows.",
        ),
    ] = False
    first_try: int = 0
    """Number of the first try of this execution of the run: partitions that it has committed since
    are done, so that a retry does not apply a query twice. 0: every partition again."""
    dry_run: DryRun = False
