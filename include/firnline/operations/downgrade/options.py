"""Options of a downgrade."""

from __future__ import annotations

import msgspec

from firnline.operations.options import DryRun


class DowngradeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a downgrade."""

    dry_run: DryRun = False
