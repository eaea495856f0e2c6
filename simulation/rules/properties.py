"""Rules of a table's own properties that can be switched off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firnline import table
from firnline.properties import in_force as properties
from firnline.properties.record import PropertiesRecord
from simulation.rules.breaking import Mutation, put


def _settings_decide() -> None:
    put(table, "in_force", lambda settings, _: settings)


def _newest_alone() -> None:
    def needed(records: Sequence[PropertiesRecord], _now: int) -> tuple[Any, ...]:
        newest = max((record.seq for record in records), default=0)
        return tuple(record for record in records if record.seq == newest)

    put(properties, "needed", needed)


PROPERTIES = {
    "settings decide, and not the table": Mutation(_settings_decide, 5),
    "who deletes goes by the newest properties alone": Mutation(_newest_alone, 238),
}
