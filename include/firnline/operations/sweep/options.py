"""Options of a sweep."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import Option


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a sweep."""

    older_than: Annotated[
        int | None,
        Option(
            "Older than",
            "Minimum age of an orphan, such as `7d`, at least `24h`.",
            absent="`orphan_grace` of the table's settings",
            metavar="DURATION",
            unit="duration",
        ),
    ] = None
    """Milliseconds."""
    dry_run: bool = False
    approved: Annotated[
        tuple[str, ...] | None,
        Option(
            "Keys",
            "With `--delete`: only these of the list. An object with a foreign name is deleted in "
            "no other way.",
            metavar="KEY",
            flag="--key",
            form=False,
        ),
    ] = None
    """Keys that a person has seen and approved: of the orphans, these and no others. None: all
    but those with foreign names."""
