"""Options of a TTL run."""

from __future__ import annotations

import msgspec

from firnline.operations.options import DryRun, Partitions


class TtlOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a TTL run."""

    partitions: Partitions = ()
    dry_run: DryRun = False
