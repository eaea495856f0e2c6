"""Options of a removal of partitions."""

from __future__ import annotations

import msgspec

from firnline.operations.options import DryRun


class DropOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a removal of partitions."""

    partitions: tuple[str, ...]
    """Exact names."""
    expected: dict[str, str] = {}
    """Partition -> version as listed; one that changed since is refused."""
    dry_run: DryRun = False
