"""Options of an erase."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class EraseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an erase."""

    columns: Annotated[
        tuple[str, ...],
        Option(
            "Key columns",
            "Names of columns; a row goes when all of them equal those of one key.",
            metavar="NAME",
            flag="--column",
        ),
    ]
    keys: tuple[tuple[str | int | float | bool | None, ...], ...] = ()
    """A few keys, one value per column each. What asks for them says who else sees them."""
    keys_file: Annotated[
        str | None,
        Option(
            "File of keys",
            "Parquet or CSV with these columns: a URL in the table's bucket, or a path that the "
            "command can read (in Airflow: the worker and the Spark driver).",
            metavar="FILE",
            flag="--keys",
        ),
    ] = None
    dry_run: DryRun = False
