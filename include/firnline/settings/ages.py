"""Ages that hold for every table, whatever its settings: of orphans, and of appends beside them."""

from __future__ import annotations

from typing import Final

from firnline.units import parse_duration

LEAST_ORPHAN: Final = "24h"
"""Least ``orphan_grace``, and the least age of what a sweep deletes whatever is asked for."""
LEAST_ORPHAN_MS = parse_duration(LEAST_ORPHAN)
LONGEST_UNTOLD_MS = LEAST_ORPHAN_MS - parse_duration("1h")
"""Maximum age in ms of an append that does not know the table's ``append.ttl``: less than the age
of anything that a sweep may delete, by what clocks may differ."""
