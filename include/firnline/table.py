"""A table that can be worked on: settings, store, keys, and where time and ids come from.

Everything is injected, so that a simulation runs the same code on its own world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from firnline.clock import Clock, SystemClock
from firnline.ids import Ids, SystemIds
from firnline.paths import Root, TablePaths
from firnline.properties.in_force import in_force
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store


@dataclass(frozen=True, slots=True)
class Table:
    """What every operation takes first."""

    settings: TableSettings
    store: Store
    paths: TablePaths
    clock: Clock
    ids: Ids
    access: StoreAccess | None = None
    """How the store was opened, for the rare request that needs a second client."""
    wanted: TableSettings | None = None
    """What the caller's settings say, where ``settings`` are those in force; None: the same."""

    def under(self, properties: Properties | None) -> Table:
        """Return the table with the settings in force under its own properties.

        Raises PropertiesDifferError, SettingsError: see ``properties.in_force``.
        """
        wanted = self.wanted or self.settings
        return replace(self, settings=in_force(wanted, properties), wanted=wanted)


def open_table(
    settings: TableSettings,
    access: StoreAccess | None = None,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Table:
    """Open a table's store; no request is sent.

    Args:
        settings: of the table.
        access: endpoint and credentials; None for the usual chain of the cloud.
        clock: None for the machine's.
        ids: None for the machine's randomness.

    Raises:
        StoreAccessError: the access cannot be right, whatever the store says.
    """
    clock = clock or SystemClock()
    return Table(
        settings=settings,
        store=open_store(settings.root, access, clock=clock),
        paths=TablePaths(Root.parse(settings.root).prefix),
        clock=clock,
        ids=ids or SystemIds(),
        access=access,
    )
