"""Whatever a table has lived through, and however an erase dies: its certificate tells the truth.

A table lives, and some of what works on it dies; then a key is erased, and some erases die, at any
store call. Then it lives on. As soon as the certificate is complete no object holds the key, in any
form, but text of the log that certificates name; and days later none but old transactions do.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from firnline.appends.append import Appender
from firnline.errors import FirnlineError
from firnline.objects import kind_of
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.erase.certificate import Certificate, list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import EraseReport, run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    EraseOptions,
    MergeOptions,
    MirrorOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SweepOptions,
)
from firnline.operations.prepared import objects
from firnline.operations.prepared.run import commit_prepared, discard_prepared
from firnline.operations.prepared.waiting import waiting
from firnline.operations.replace.run import run_replace
from firnline.operations.restore.run import run_restore
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.sweep.run import run_sweep
from firnline.store.base import Store
from firnline.table import Table
from tests.support.effort import examples
from tests.support.scenarios import DAY, Call
from tests.support.traces import by_kind, in_folder, traces
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

KEY = "needle-17.example"
"""Nothing in it has to be escaped, in a path either."""
HOUR = 3_600_000
KINDS = ("before", "after", "lost")
EVERY: dict[str, Any] = {
    "sort_by": ["k"],
    "merge": {"min_inputs": 2},
    "rewrite": {"max_removed_fraction": 1.0},
}
LIVES: list[dict[str, Any]] = [
    {"partition_by": ["day"], "statistics": ["c"]},
    {"partition_by": ["c"]},
    {"partition_by": ["c"], "mirror": ["delta"]},
    {"partition_by": [], "checkpoint": {"min_parts": 1}},
    {
        "partition_by": ["day"],
        "deletes": "lazy",
        "mirror": [{"delta": {"deletes": "vectors"}}],
        "statistics": ["c"],
    },
]
PATIENCE = 14
"""Days within which a table that is looked after holds a key no more, and has certified it."""
deaths = st.none() | st.tuples(st.integers(0, 60), st.sampled_from(KINDS))


class Told(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Life(RuleBasedStateMachine):
    """A table, what happens to it, and an erase."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="firnline-life-")
        self.erased = False
        """Somebody has tried to: from then on nobody brings the key again."""
        self.reports: list[EraseReport] = []
        self.told = Told()
        self.count = 0

    @initialize(settings=st.sampled_from(LIVES))
    def begin(self, settings: dict[str, Any]) -> None:
        self.world = make_world(**{**EVERY, **settings})
        self.append(keyed=True, death=None)

    @property
    def table(self) -> Table:
        return self.world.table

    @property
    def scratch(self) -> Path:
        return Path(self.folder.name)

    def call(self, store: Store | None = None) -> Call:
        table = self.table if store is None else replace(self.table, store=store)
        return Call(table, self.scratch)

    def do(self, operation: Callable[[Call], object], death: tuple[int, str] | None) -> bool:
        """Run an operation, which may die or be refused; return True if it has ended."""
        self.world.clock.advance(1_000)
        fault = None if death is None else Fault(*death)
        try:
            operation(self.call(FaultyStore(self.world.store, fault)))
        except (Crashed, FirnlineError):
            return False
        return True

    @rule(keyed=st.booleans(), death=deaths)
    def append(self, keyed: bool, death: tuple[int, str] | None) -> None:
        self.count += 1
        names = ["a", "z", KEY if keyed and not self.erased else "m", f"n{self.count % 3}"]
        ids = range(10 * self.count, 10 * self.count + len(names))
        rows = pa.table({"c": names, "day": [n % 2 for n in ids], "k": list(ids)})
        self.do(lambda call: Appender(call.table).append(rows), death)

    @rule(death=deaths)
    def merge(self, death: tuple[int, str] | None) -> None:
        self.do(
            lambda call: run_merge(Work(call.table, call.run, call.engine), MergeOptions()), death
        )

    @rule(death=deaths, by_key=st.booleans(), mode=st.sampled_from(["eager", "lazy"]))
    def delete(self, death: tuple[int, str] | None, by_key: bool, mode: Any) -> None:
        where = f"c = '{KEY}'" if by_key and not self.erased else f"k = {10 * self.count}"
        asked = DeleteOptions(where=where, mode=mode)
        self.do(lambda call: run_delete(Work(call.table, call.run, call.engine), asked), death)

    @rule(death=deaths)
    def replace(self, death: tuple[int, str] | None) -> None:
        asked = ReplaceOptions(column="k", start=str(10 * self.count), end=str(10 * self.count + 2))
        rows = pa.table({"c": ["new"], "day": [0], "k": [10 * self.count + 1]})
        self.do(
            lambda call: run_replace(Work(call.table, call.run, call.engine), asked, data=rows),
            death,
        )

    @rule(death=deaths, nothing_left=st.booleans())
    def prepare(self, death: tuple[int, str] | None, nothing_left: bool) -> None:
        where = "k < 0" if nothing_left else "k >= 12"
        asked = RewriteOptions(where=where, force=True, prepare=True, samples=20)
        self.do(lambda call: run_prepare(Work(call.table, call.run, call.engine), asked), death)

    @rule(death=deaths, how=st.sampled_from(["commit", "discard", "decide"]))
    def decide(self, death: tuple[int, str] | None, how: str) -> None:
        found = waiting(self.table).prepared
        if not found:
            return
        change = found[0].id
        steps: dict[str, Callable[[Call], object]] = {
            "commit": lambda call: commit_prepared(call.table, change, call.run),
            "discard": lambda call: discard_prepared(call.table, change, call.run),
            "decide": lambda call: objects.decide(call.table, change, "commit", call.run),
        }
        self.do(steps[how], death)

    @rule(death=deaths, back=st.integers(1, 3))
    def restore(self, death: tuple[int, str] | None, back: int) -> None:
        newest = len([k for k in self.world.store.objects if "/_txn/" in k]) - 1
        asked = RestoreOptions(to=max(0, newest - back))
        self.do(lambda call: run_restore(Work(call.table, call.run), asked), death)

    @rule(death=deaths)
    def tidy(self, death: tuple[int, str] | None) -> None:
        self.do(lambda call: run_cleanup(Work(call.table, call.run), CleanupOptions()), death)
        self.do(lambda call: run_sweep(Work(call.table, call.run), SweepOptions()), death)

    @rule(death=deaths)
    def publish(self, death: tuple[int, str] | None) -> None:
        if self.table.settings.mirror:
            self.do(lambda call: run_mirror(Work(call.table, call.run), MirrorOptions()), death)

    @rule(ms=st.sampled_from([HOUR, 7 * HOUR, 2 * DAY]))
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @precondition(lambda self: len(self.reports) < 2)
    @rule(death=deaths)
    def erase(self, death: tuple[int, str] | None) -> None:
        self.erased = True
        with_logs(self.told, lambda: self.do(self._erase, death))

    def _erase(self, call: Call) -> None:
        asked = EraseOptions(columns=("c",), keys=((KEY,),))
        report = run_erase(Work(call.table, call.run, call.engine), asked)
        self.reports.append(report)
        assert KEY not in json.dumps(report.to_json())

    @precondition(lambda self: bool(self.reports))
    @rule(death=deaths)
    def certify(self, death: tuple[int, str] | None) -> None:
        def one(call: Call) -> None:
            for listed in list_certificates(call.table):
                complete_certificate(call.table, listed.id, call.run)

        self.do(one, death)

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                with_logs(self.told, self.end)
        finally:
            self.folder.cleanup()

    def end(self) -> None:
        """Erase until it is done, and live on until its certificates are complete."""
        self.erased = True
        while not self.reports:
            self.do(self._erase, None)
        self.holds_nothing_beside_the_table()
        found: list[Certificate] = []
        left: dict[str, int] = {}
        for _ in range(PATIENCE):
            self.live()
            found = self.certificates()
            if any(one.status == "complete" for one in found):
                self.only_named_text(found)
            left = by_kind(self.table.paths, traces(self.world.store.objects, KEY))
            # Transactions go last, a hundred newer ones later; certificates name them until then.
            if not self.waiting_for(found) and left.keys() <= {"transaction"}:
                break
        else:
            raise AssertionError((self.waiting_for(found), left))
        self.holds_nothing_beside_the_table()

    def certificates(self) -> list[Certificate]:
        # Of a run that died before its plan there is no certificate, only its file of keys.
        listing = list_certificates(self.table)
        ids = [listed.id for listed in listing if listed.status != "void"]
        return [complete_certificate(self.table, one, self.call().run) for one in ids]

    def waiting_for(self, found: Sequence[Certificate]) -> list[object]:
        """Return what keeps the certificates of committed erases from being complete."""
        return [one.remaining for one in found if one.status not in {"complete", "void"}]

    def live(self) -> None:
        """A day in the life of a table that is looked after."""
        self.append(keyed=False, death=None)
        for work in (self.merge, self.tidy, self.publish):
            assert work(death=None) is None
        self.world.clock.advance(DAY)

    def only_named_text(self, found: Sequence[Certificate]) -> None:
        """Check that nothing but text of the log holds the key, and that certificates say so."""
        left = traces(self.world.store.objects, KEY)
        kinds = {key: kind_of(self.table.paths, key) for key in left}
        text = {k for k, kind in kinds.items() if kind is not None and kind.search == "log text"}
        assert left.keys() <= text, {key: left[key] for key in left.keys() - text}
        entries = [entry for one in found for entry in one.remaining]
        named = {key for entry in entries for key in entry.objects}
        cut = any(entry.count > len(entry.objects) for entry in entries)
        assert cut or left.keys() <= named, left.keys() - named

    def holds_nothing_beside_the_table(self) -> None:
        """Check scratch folders and logs; and that every object is of a kind that is listed."""
        assert in_folder(self.scratch, KEY) == []
        assert [line for line in self.told.lines if KEY in line] == []
        kinds = by_kind(self.table.paths, self.world.store.objects)
        assert not [kind for kind in kinds if "/" in kind]


def with_logs(told: Told, act: Callable[[], object]) -> None:
    logging.getLogger("firnline").addHandler(told)
    try:
        act()
    finally:
        logging.getLogger("firnline").removeHandler(told)


TestLife = Life.TestCase
TestLife.settings = examples(3, 200, stateful_step_count=10)
