"""Tables with rows of people in a folder, and requests of erasure, with a clock that is set."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import EraseReport, run_erase
from firnline.operations.erasure.ask import AskOptions, AskReport, ask
from firnline.operations.erasure.folder import RequestFolder, open_folder
from firnline.operations.erasure.look import TableLook
from firnline.operations.erasure.plan import ErasurePlan
from firnline.operations.erasure.run import ErasureReport, People, carry_out, look, settle
from firnline.operations.operation import Work, decided
from firnline.operations.options import EraseOptions, SweepOptions
from firnline.operations.sweep.run import run_sweep
from firnline.settings.erasure import ErasureSettings
from firnline.settings.fleet import FleetSettings
from firnline.settings.load import Settings, TableSettings
from firnline.store.client import open_store
from firnline.table import Table, open_table
from tests.support.reading import visible_rows
from tests.support.world import CountedIds, Fault, FaultyStore, SetClock

DAY = 86_400_000
RUN = RunIdentity(run_id="r", user="ana")


@dataclass
class Dated(FaultyStore):
    """A store in a folder whose objects have the times of a clock that is set."""

    clock: SetClock = field(default_factory=SetClock)
    place: Path = Path()

    def put_new(self, key: str, data: bytes) -> None:
        super().put_new(key, data)
        self._date(key)

    def put_file(self, key: str, file: Path | bytes) -> None:
        super().put_file(key, file)
        self._date(key)

    def _date(self, key: str) -> None:
        os.utime(self.place / key, ns=(self.clock.now * 1_000_000,) * 2)


@dataclass
class Town:
    """Tables below a folder, a folder of requests, and who is in them."""

    place: Path
    tables: dict[str, dict[str, Any]]
    """Name -> settings besides name and root."""
    erasure: dict[str, Any] = field(default_factory=dict)
    clock: SetClock = field(default_factory=SetClock)
    ids: CountedIds = field(default_factory=CountedIds)
    fault: Fault | None = None
    calls: list[str] = field(default_factory=list)
    """Of all stores together, since ``fault`` was set."""

    @property
    def settings(self) -> Settings:
        tables = {
            name: TableSettings(name=name, root=f"file://{self.place}/{name}", **given)
            for name, given in self.tables.items()
        }
        erasure = ErasureSettings(requests=f"file://{self.place}/requests", **self.erasure)
        # One after the other: a fault at the same call is then at the same place.
        fleet = FleetSettings(concurrency=1)
        return Settings(self.place / "tables.yaml", tables, fleet, erasure=erasure)

    @property
    def folder(self) -> RequestFolder:
        opened = open_folder(self.settings.erasure, clock=self.clock, ids=self.ids)
        return replace(opened, store=self._faulty(opened.store, self.fault))

    @property
    def people(self) -> People:
        return People(self.folder, self.settings, self.open)

    def open(self, name: str) -> Table:
        table = open_table(self.settings.tables[name], clock=self.clock, ids=self.ids)
        return replace(table, store=self._faulty(table.store, self.fault))

    def _faulty(self, store: Any, fault: Fault | None = None) -> Any:
        return Dated(store, fault, calls=self.calls, clock=self.clock, place=self.place)

    def append(self, name: str, **columns: list[Any]) -> None:
        self.clock.advance(10)
        Appender(self.open(name)).append(pa.table(columns))

    def keys(self, text: str, name: str = "keys.csv") -> str:
        path = self.place / name
        path.write_text(text)
        return str(path)

    def ask(self, text: str, **options: Any) -> AskReport:
        self.clock.advance(10)
        asked = AskOptions(keys=self.keys(text), **options)
        return ask(self.people, asked, RUN)

    def look(self) -> ErasurePlan:
        return look(self.people)

    def run(self) -> ErasureReport:
        self.clock.advance(10)
        people = self.people
        plan, closed = settle(people, RUN)
        return carry_out(people, plan, closed, self.erase)

    def erase(self, table: Table, options: EraseOptions) -> EraseReport:
        root, clock = table.settings.root, SystemClock()
        scratch = self.place / "scratch"
        engine = LocalEngine(lambda: self._faulty(open_store(root)), scratch, self.ids, clock)
        return run_erase(Work(table, RUN, lambda: engine), options)

    def wait(self) -> None:
        """Let the grace and the time of late appends pass."""
        self.clock.advance(3 * DAY)

    def sweep(self, name: str) -> None:
        """Delete what a run that died has left."""
        run_sweep(Work(self.open(name), RUN, consent=decided), SweepOptions())

    def rows(self, name: str, column: str) -> list[Any]:
        """Values of a column that readers see."""
        return sorted(row[column] for row in visible_rows(self.open(name)))

    def certificates(self, name: str) -> list[str]:
        """Names of the table's certificates."""
        folder = self.place / name / "_erase"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []

    def requests(self) -> list[str]:
        """Kinds of the objects in the folder of requests."""
        folder = self.place / "requests"
        return sorted(p.name.split(".", 1)[1] for p in folder.iterdir()) if folder.exists() else []


def look_of(plan: ErasurePlan, table: str) -> TableLook:
    """Return the look at a table."""
    return next(each for each in plan.tables if each.table == table)


def shop(place: Path, **erasure: Any) -> Town:
    """Orders by customer and mails by address, of persons 0 to 5; weather that says nothing."""
    place.mkdir(exist_ok=True)
    town = Town(
        place,
        {
            "orders": {"person": ["customer_id"]},
            "mails": {"person": ["email"]},
            "weather": {},
            "stations": {"person": []},
        },
        erasure,
    )
    for first in (0, 3):
        each = list(range(first, first + 3))
        town.append("orders", customer_id=each, n=each)
        town.append("mails", email=[f"p{n}@x.y" for n in each], n=each)
    town.append("weather", t=[1])
    town.append("stations", s=[1])
    return town
