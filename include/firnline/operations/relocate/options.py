"""Options of a relocation."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firnline.operations.options import DryRun, Option


class RelocateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a relocation."""

    old: Annotated[
        str | None,
        Option(
            "Old place",
            "Key prefix or root URL of the old place; needed only where the log names objects of "
            "two places.",
            metavar="PREFIX",
            flag="--from",
        ),
    ] = None
    dry_run: DryRun = False
