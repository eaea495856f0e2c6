"""Extension records that later ones of their kind stand for: what a fold leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from firnline.log import erases, fence, sinks


def without_superseded(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without batches, erases and fences that are older than another one."""
    return fence.without_lower(erases.without_older(sinks.without_superseded(lines)))
