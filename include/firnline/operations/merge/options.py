"""Options of a merge."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option, Partitions


class MergeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a merge."""

    partitions: Partitions = ()
    max_bytes: Annotated[
        int | None,
        Option(
            "Bytes to read at most",
            "At most this much in one run, such as `10GiB`; the rest waits for the next run.",
            absent="`merge.max_bytes_per_run` of the table's settings",
            metavar="SIZE",
            unit="size",
            least=1,
        ),
    ] = None
    dry_run: DryRun = False
