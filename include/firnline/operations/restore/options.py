"""Options of a restore."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class RestoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a restore."""

    to: Annotated[
        int,
        Option(
            "Transaction",
            "The last transaction after which the state was right, by its number in "
            "`firnline history`; 0: before the first.",
            metavar="SEQ",
            least=0,
            most=999_999_999,
        ),
    ]
    partitions: Annotated[
        tuple[str, ...],
        Option(
            "Partitions",
            "Only these, as globs over partition paths such as `ts_month=2013-*`.",
            absent="the whole table",
            in_form="They are needed, `*` is all.",
            metavar="GLOB",
            flag="--partition",
        ),
    ] = ()
    exact: Annotated[bool, Option("Exact", "Also remove what was appended since.")] = False
    dry_run: DryRun = False
