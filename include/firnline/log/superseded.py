"""Extension records that later ones of their kind stand for: what a fold leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from firnline.log import erases, sinks


def without_superseded(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without batches of a query and erases that are older than another one."""
    return erases.without_older(sinks.without_superseded(lines))
