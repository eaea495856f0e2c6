"""Options of a clone."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class CloneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a clone."""

    history: Annotated[
        bool,
        Option(
            "History",
            "Also copy dead parts, log and transactions, for states of the past, restore and "
            "certificates.",
        ),
    ] = False
    dry_run: DryRun = False
