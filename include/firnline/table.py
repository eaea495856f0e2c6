"""An open table: its settings, store and keys, and its sources of time and ids.

All of them are injected, so that a simulation runs the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firnline.clock import Clock, SystemClock
from firnline.errors import UsageError
from firnline.ids import Ids, SystemIds
from firnline.interrupts import Interrupts
from firnline.paths import Root, TablePaths
from firnline.properties.in_force import in_force
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings
from firnline.shown import Shown
from firnline.store.access import StoreAccess
from firnline.store.base import Store
from firnline.store.client import open_store


class Stated:
    """What a table says of itself, as all copies of one ``Table`` have last read it."""

    def __init__(self) -> None:
        self.properties: Properties | None = None
        """None: it was not read yet, or the table states none."""
        self.ends = False
        """The run deletes the whole table: there is nothing to publish."""

    @property
    def mirrors(self) -> tuple[str, ...]:
        """Names of the formats in which it says to be mirrored."""
        return () if self.properties is None else self.properties.mirrors


@dataclass(frozen=True, slots=True, repr=False)
class Table(Shown):
    """An open table, the first argument of every operation."""

    settings: TableSettings
    store: Store
    paths: TablePaths
    clock: Clock
    ids: Ids
    access: StoreAccess | None = None
    """The access that the store was opened with, for requests that need a second client."""
    wanted: TableSettings | None = None
    """The caller's own settings, where ``settings`` are those in force; None: the same."""
    interrupts: Interrupts = field(default_factory=Interrupts, compare=False, repr=False)
    """The run's, which wait for the end of a commit."""
    stated: Stated = field(default_factory=Stated, compare=False, repr=False)
    """For who has to know it after an operation without another request."""

    def under(self, properties: Properties | None) -> Table:
        """Return the table with the settings in force under its own properties, and note these.

        Raises PropertiesDifferError, SettingsError: see ``properties.in_force``.
        """
        self.stated.properties = properties
        given = self.wanted or self.settings
        return replace(self, settings=in_force(given, properties), wanted=given)

    def _title(self) -> str:
        """Return its name."""
        return f"Table {self.settings.name}"

    def _facts(self) -> Mapping[str, str]:
        """Return its place, and the layout that these settings say."""
        layout = {
            "partition_by": self.settings.partition_by,
            "sort_by": self.settings.sort_by,
            "primary_key": self.settings.primary_key,
        }
        texts = {name: ", ".join(map(str, fields)) for name, fields in layout.items() if fields}
        return {"root": self.settings.root, **texts}


def open_table(
    settings: TableSettings,
    access: StoreAccess | None = None,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    interrupts: Interrupts | None = None,
) -> Table:
    """Open a table's store; no request is sent.

    Args:
        settings: of the table.
        access: endpoint and credentials; None for the default credential chain of the cloud.
        clock: source of time; None for the system's.
        ids: source of ids; None for the system's randomness.
        interrupts: those of a run that another thread may stop; None if none does.

    Raises:
        UsageError: ``access`` is something else.
        StoreAccessError: the access is invalid in itself.
    """
    if access is not None and not isinstance(access, StoreAccess):
        raise UsageError(
            f"the access is of type {type(access).__name__}",
            next_step="give a firnline.store.access.StoreAccess, or none for the environment's",
        )
    clock = clock or SystemClock()
    return Table(
        settings=settings,
        store=open_store(settings.root, access, clock=clock),
        paths=TablePaths(Root.parse(settings.root).prefix),
        clock=clock,
        ids=ids or SystemIds(),
        access=access,
        interrupts=interrupts or Interrupts(),
    )
