"""Requests of erasure in all states, for tests of the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import run_erase
from firnline.operations.erasure.ask import AskOptions, ask
from firnline.operations.erasure.folder import RequestFolder, open_folder
from firnline.operations.erasure.record import Closed, ErasedTable, Request
from firnline.operations.erasure.run import People
from firnline.operations.hold.run import run_hold
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions, HoldOptions
from firnline.settings.erasure import ErasureSettings
from firnline.settings.load import Settings, TableSettings
from firnline.store.client import open_store
from firnline.table import open_table
from firnline.units import DAY_MS
from tests.dags.filled import fill

KEY = 137
"""The person of every request."""
RUN = RunIdentity(run_id="manual__1", user="carol")


def ask_all(home: Path) -> dict[str, str]:
    """Write the tables ``asked`` and ``lost``, of which the second is not there, and requests.

    T-1 is overdue and erased, T-2 soon due, T-3 of a table that the settings do not have, T-4 done
    and T-5 withdrawn. A legal hold keeps T-2 and T-3 from being erased. Returns the roots.
    """
    names = ("asked", "lost", "moved")
    roots = {name: f"file://{home}/{name}" for name in names}
    tables = [TableSettings(name=n, root=root, person=("k",)) for n, root in roots.items()]
    fill(open_table(tables[0]), 5)
    settings = ErasureSettings(requests=f"file://{home}/requests")
    folder = open_folder(settings)
    now = folder.clock.now_ms()
    keys = home / "keys.csv"
    keys.write_text(f"k\n{KEY}\n", encoding="utf-8")

    def taken(reference: str, received: float, due: float, of: Sequence[TableSettings]) -> Request:
        options = AskOptions(
            keys=str(keys),
            reference=reference,
            received_ms=int(now + received * DAY_MS),
            due_ms=int(now + due * DAY_MS),
        )
        known = {each.name: each for each in of}
        asked = Settings(home / "tables.yaml", known, erasure=settings)
        people = People(folder, asked, lambda name: open_table(known[name]))
        return ask(people, options, RUN).request

    taken("T-3", -1, 29.5, tables)
    taken("T-2", -27, 3.5, tables[:2])
    certificate = _erased(home, folder, tables[0], taken("T-1", -40, -10.5, tables[:2]))
    hold = HoldOptions(name="case-17", where=f"k = {KEY}", why="Miller v. Acme", by="bo")
    run_hold(Work(open_table(tables[0]), RUN), hold)
    done = taken("T-4", -60, -30, tables[:1])
    ended = ErasedTable(
        table="asked",
        root=roots["asked"],
        certificate=certificate,
        sha256="0" * 64,
        seq=1,
        completed_ms=now - DAY_MS,
    )
    folder.close(Closed(id=done.id, closed_ms=now, closed_by=RUN, tables=(ended,)))
    withdrawn = taken("T-5", -3, 27, tables[:1])
    why = "asked twice"
    folder.close(Closed(id=withdrawn.id, closed_ms=now - 1, closed_by=RUN, withdrawn=why))
    return {name: root for name, root in roots.items() if name != "moved"}


def _erased(home: Path, folder: RequestFolder, table: TableSettings, request: Request) -> str:
    """Erase a request from a table; returns the certificate, which waits."""
    store = partial(open_store, table.root)
    engine = LocalEngine(store, home / "scratch", SystemIds(), SystemClock())
    options = EraseOptions(columns=("k",), requests=(folder.keys_of(request),))
    report = run_erase(Work(open_table(table), RUN, lambda: engine), options)
    assert report.certificate is not None
    return report.certificate
