"""Extension records that later ones of their kind stand for: what a fold leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from firnline.log import erases, fence, imports, sinks


def without_superseded(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without batches, erases, imports and fences that a later one replaces."""
    without = sinks.without_superseded(imports.without_continued(lines))
    return fence.without_lower(erases.without_older(without))
