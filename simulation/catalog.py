"""A catalog of the simulated world: that of pyiceberg in a database in memory, with faults.

In half of the worlds the client writes the table's metadata and then exchanges its location, as
with SQL, Glue and Hive; in the others a server does both at once, as with REST, and may do so long
after its client gave up. Only worlds with an Iceberg mirror import this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ServiceUnavailableError
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import CommitTableResponse, Table, locations, update
from pyiceberg.table import metadata as metadata_of_tables
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import EMPTY_DICT
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from firnline.errors import ObjectExistsError, ObjectNotFoundError
from firnline.mirror.iceberg import shown, sweep
from firnline.mirror.iceberg.io import _PLACES, IMPLEMENTATION, PLACE, Place, StoreIO, register
from firnline.paths import Root
from firnline.store.base import ObjectMeta
from simulation.store import SimStore
from simulation.world import IN_FLIGHT, Actor, LateCall, World

NAME = ("lake", "t")
"""Namespace and name of the mirror's table."""
_SERVED = 0.5
"""Share of the worlds whose catalog writes the metadata itself."""
_EVERY, _RECORDS = 3, 2
"""``sweep.EVERY`` and ``shown._MOST``: it must not matter when metadata is looked through."""


@dataclass
class Lake:
    """The catalog's own state, and who committed to it."""

    world: World
    served: bool
    """A server writes the metadata."""
    taken: list[tuple[str | None, int]] = field(default_factory=list)
    """URL of new metadata, None for a table that was dropped, and when that was, unix ms."""
    skews: dict[int, int] = field(default_factory=dict)
    """Snapshot -> skew in ms of the clock of the process that made it."""
    dropped: bool = False
    """Its table was dropped once."""

    def __post_init__(self) -> None:
        self.engine = create_engine("sqlite://", poolclass=StaticPool)
        root = Root.parse(self.world.settings.root)
        self.place = Place(_Shelf(self.world), root)  # type: ignore[arg-type] # what is used of it
        self.server = _Database(self, {PLACE: register(self.place)})
        self.server.create_tables()

    def io(self) -> StoreIO:
        """Return access to files that takes no time and never fails."""
        return StoreIO({PLACE: register(self.place)})

    def location(self) -> str | None:
        """Return the URL of the newest metadata; None without a table."""
        statement = "SELECT metadata_location FROM iceberg_tables"
        with self.engine.connect() as connection:
            return connection.exec_driver_sql(statement).scalar()

    def drop(self) -> None:
        """Drop the mirror's table without its files, as an operator may."""
        self.server.drop_table(NAME)
        self.dropped = True
        self.taken.append((None, self.world.now))
        self.world.tell("an operator drops the table in the catalog")


@dataclass
class _Shelf:
    """The store as a server uses it: no faults, and nothing happens in between."""

    world: World

    def get(self, key: str) -> bytes:
        found = self.world.objects.get(key)
        if found is None:
            raise ObjectNotFoundError(f"{key} is not there", next_step="look for it")
        return found.data

    def head(self, key: str) -> ObjectMeta:
        return ObjectMeta(key, len(self.get(key)), self.world.objects[key].at)

    def put_new(self, key: str, data: bytes) -> None:
        if key in self.world.objects:
            raise ObjectExistsError(f"{key} exists", next_step="read it back")
        self.world.put(key, data)


class _Database(SqlCatalog):
    """pyiceberg's catalog on the one database of a world."""

    def __init__(self, lake: Lake, properties: dict[str, str]) -> None:
        properties["py-io-impl"] = IMPLEMENTATION
        MetastoreCatalog.__init__(self, "lake", **properties)
        self.lake, self.engine, self._schema_version = lake, lake.engine, "v1"

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit, and remember who made the snapshot."""
        found = super().commit_table(table, requirements, updates)
        self.lake.taken.append((found.metadata_location, self.lake.world.now))
        return found


class SimCatalog(_Database):
    """The catalog as one actor reaches it (``py-catalog-impl``)."""

    def __init__(self, _name: str, **properties: str) -> None:
        store = _PLACES[properties[PLACE]].store
        assert isinstance(store, SimStore)
        self.actor: Actor = store.actor
        lake = self.actor.world.lake
        super().__init__(lake, properties)

    def load_table(self, identifier: Any) -> Table:
        """Load; a server reads the metadata itself."""
        self._ask("load the table")
        if not self.lake.served:
            return super().load_table(identifier)
        found = self.lake.server.load_table(identifier)
        io = self._load_file_io(found.metadata.properties, found.metadata_location)
        return Table(found.name(), found.metadata, found.metadata_location, io, self)

    def namespace_exists(self, identifier: Any) -> bool:
        """Ask for a namespace."""
        self._ask("ask for the namespace")
        return super().namespace_exists(identifier)

    def create_namespace(self, namespace: Any, properties: Any = EMPTY_DICT) -> None:
        """Make a namespace."""
        self._ask("make the namespace")
        self.lake.server.create_namespace(namespace, properties)
        self._answered("make the namespace")

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit; the actor may end before, in between and after, and may get no answer."""
        actor, lake = self.actor, self.lake
        for each in updates:
            if isinstance(each, AddSnapshotUpdate):
                lake.skews[each.snapshot.snapshot_id] = actor.skew
        self._ask("commit")
        send = partial(lake.server.commit_table, table, requirements, updates)
        if not lake.served:
            send = partial(super().commit_table, table, requirements, updates)
        elif actor.suffers("fault", actor.world.mix.fault):
            due = actor.world.step + actor.r.randint(1, 200)
            actor.tell("    gets no answer; the commit is still under way")
            actor.world.calls.append(
                LateCall(due, actor.world.now, "a commit", partial(_late, send))
            )
            raise ServiceUnavailableError("no answer")
        found = send()
        actor.tell(f"    = the catalog names {found.metadata_location}")
        self._answered("commit")
        return found

    def _write_metadata(self, metadata: Any, io: Any, metadata_path: str) -> None:  # type: ignore[override]
        """Write the metadata, and stop before its location is exchanged."""
        super()._write_metadata(metadata, io, metadata_path)
        called = self.actor.world.now
        self._ask("exchange the location of the metadata")
        if self.actor.world.now - called > IN_FLIGHT:
            # As in ``SimStore.put_new``: nothing can look at the clock after this.
            raise ServiceUnavailableError("the connection timed out")

    def _ask(self, what: str) -> None:
        """Let others run; the actor may end, or the catalog not answer."""
        self.actor.request(f"catalog: {what}")
        self._fail("    gets no answer; nothing was done")

    def _answered(self, what: str) -> None:
        """The actor may end, or get no answer although it was done."""
        self.actor.answered(f"catalog: {what}")
        self._fail("    gets no answer; it was done")

    def _fail(self, told: str) -> None:
        if self.actor.suffers("fault", self.actor.world.mix.fault):
            self.actor.tell(told)
            raise ServiceUnavailableError("no answer")


def _late(send: Any) -> None:
    try:
        send()
    except CommitFailedException:
        return


@contextmanager
def in_world(world: World) -> Iterator[None]:
    """Give pyiceberg the world's time and names, and the product a look at metadata more often."""

    def uuid4() -> UUID:
        return UUID(int=world.next_id() << 64 | world.now)

    def now() -> datetime:
        return datetime.fromtimestamp(world.now / 1000, UTC)

    names = SimpleNamespace(uuid4=uuid4, UUID=UUID)
    put: list[tuple[Any, str, object]] = [
        (locations, "uuid", names),
        (metadata_of_tables, "uuid", names),
        (update, "datetime", SimpleNamespace(now=now)),
        (sweep, "EVERY", _EVERY),
        (shown, "_MOST", _RECORDS),
    ]
    real = [(module, name, module.__dict__[name]) for module, name, _ in put]
    for module, name, other in put:
        module.__dict__[name] = other
    clear_manifest_cache()  # other worlds have had the same names
    world.lake = Lake(world, world.chance.roll(4741) < _SERVED)
    try:
        yield
    finally:
        for module, name, own in real:
            module.__dict__[name] = own
