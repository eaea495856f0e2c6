"""Updates: an actor that gives rows new values, and the value that each row has to have.

Only worlds of ``UPDATING`` seeds have them, so all others are what they were without. An update
adds its number to a text, which so says in which updates a row has been, and in which order; some
updates change the user besides, by which deletes and other updates choose rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from firnline.log.txn_file import RunIdentity, TxnHeader
from firnline.operations.operation import Work
from firnline.operations.options import UpdateOptions
from firnline.operations.update.run import UpdateReport, run_update
from firnline.state.snapshot import Snapshot
from simulation.hides import Hides
from simulation.keyed import Row
from simulation.ledger import Ledger
from simulation.mix import Mix
from simulation.world import Violation

if TYPE_CHECKING:
    from simulation.stage import Stage

UPDATING = range(21_000, 27_000)
"""Seeds of worlds whose rows are updated."""
_CLUSTERED = range(22_000, 23_000)
"""Those whose rows are in clusters, and are replaced, too."""
_HELD = range(23_000, 24_000)
"""Those with legal holds."""
_PREPARED = range(24_000, 25_000)
"""Those in which updates are prepared."""
_RESTORED = range(26_000, 27_000)
"""Those whose partitions are restored."""
_KEYED = range(25_000, 26_000)
"""Those of tables with a primary key, whose updates do not change the user, which is the key."""
COLUMNS = {"s": "VARCHAR"}
_WEIGHTS: dict[str, float] = {"update": 3.0, "append": 3.0, "merge": 2.0, "delete": 1.5}
_AGAIN = 0.3
"""Share of the updates that are another try of a run that nobody has heard the end of."""
_OTHER_USER = 0.4
"""Share of the updates that change the user, too."""
_CAST = re.compile(r'CAST\(\((.*?)\n?\) AS VARCHAR\) ELSE "(\w+)" END')


def mix_of(mix: Mix, seed: int) -> Mix:
    """Return the mix of such a seed."""
    cleanup = max(1.0, mix.weights["cleanup"])
    weights = mix.weights | _WEIGHTS | {"cleanup": cleanup}
    if seed in _CLUSTERED:
        weights |= {"replace": 1.0}
    if seed in _HELD:
        weights |= {"hold": 1.0, "end_hold": 1.0}
    if seed in _PREPARED:
        weights |= {"update": 2.0, "decide": 3.0, "prepare": 0.2}
    kind = "updated clusters" if seed in _CLUSTERED else "updated"
    kind = "updated keys" if seed in _KEYED else kind
    if seed in _RESTORED:
        kind, weights = "updated and restored", weights | {"restore": 2.0}
    return replace(mix, kind=kind, deletes=True, weights=weights)


# --- the value of each row ------------------------------------------------------------------------


@dataclass
class Asked:
    """The arguments of an update, of which there may be several tries."""

    where: Hides
    sql: str
    number: int
    user: str | None
    """New user; None: as it is."""
    began: int
    """Step in which its first try began; it sees all that was visible by then."""
    tries: int = 0
    heard: bool = False
    """A try of it has ended by itself."""
    prepared: bool = False
    """It is committed later, if nobody has changed its parts."""

    @property
    def may_be_tried_again(self) -> bool:
        """Return False if its end is known, or somebody else decides on it."""
        return not self.heard and not self.prepared

    @property
    def assignments(self) -> tuple[str, ...]:
        """Return them as the options of an update have them."""
        user = () if self.user is None else (f"u = '{self.user}'",)
        return (f"s = s || ' {self.number}'", *user)


@dataclass
class Updates:
    """The updates of a world, and the values of its rows."""

    ledger: Ledger
    stats: Counter[str]
    asked: dict[str, Asked] = field(default_factory=dict)
    """Run id -> its arguments."""
    done: dict[str, TxnHeader] = field(default_factory=dict)
    """Run id -> transaction of its update."""
    texts: dict[int, str] = field(default_factory=dict)
    """Row -> text, of rows that were updated."""
    earlier: dict[int, list[tuple[int, tuple[int, str, str], str]]] = field(default_factory=dict)
    """Row -> transactions that changed it, each with what the row and its text were before."""
    came_at: dict[int, int] = field(default_factory=dict)
    """Row -> step in which a restore brought it or its values back, or an update made it one of
    another user. An update that began before that need not change it: it is as if it came first."""
    parts: dict[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    """Rows of parts with all columns."""

    def committed(self, header: TxnHeader, replaced: Iterable[Row], step: int) -> None:
        """Apply an update. Raises Violation: it came twice, or has left a row out.

        Args:
            header: of its transaction.
            replaced: rows of the parts that it replaces.
            step: the current step.
        """
        run = header.run.run_id
        if run in self.done:
            raise Violation(f"two tries of {run} updated: {self.done[run].seq} and {header.seq}")
        self.done[run] = header
        asked, rewritten, born = self.asked[run], {row[0] for row in replaced}, self.ledger.born
        shown = self.ledger.expected()
        for k, (_, p, u) in list(born.items()):
            if not asked.where.row(k, p, u) or not self.ledger.stands(k):
                continue
            if k in rewritten:
                self._note(k, header.seq)
                self.texts[k] = f"{self.texts.get(k, '')} {asked.number}"
                # Deletes from before it have not hidden the row.
                born[k] = header.seq, p, asked.user or u
                if asked.user not in {None, u}:
                    self.ledger.moved.add(k)
                    self.came_at[k] = step
                self.stats["rows updated"] += 1
            elif self._came_at(k) < asked.began and k in shown:
                raise Violation(f"update {header.seq} leaves out row {k}, which it had to change")

    def _came_at(self, k: int) -> int:
        return max(self.ledger.born_at[k], self.came_at.get(k, 0))

    def restored(self, header: TxnHeader, before: set[int], step: int) -> None:
        """Give rows the values that they had after a transaction, in a partition that is as then.

        Rows that nobody has changed since have them.

        Args:
            header: of the restore.
            before: rows that the table showed before it.
            step: the current step.
        """
        wanted = self.ledger.restores[header.run.run_id]
        to, partitions = wanted.to, wanted.partitions
        self.came_at.update(dict.fromkeys(self.ledger.expected() - before, step))
        for k, changes in self.earlier.items():
            since = [change for change in changes if change[0] > to]
            if since and k in self.ledger.born and self.ledger.born[k][1] in partitions:
                _, row, text = since[0]
                self._note(k, header.seq)
                self.ledger.born[k], self.texts[k] = row, text
                self.ledger.moved.add(k)
                self.came_at[k] = step
                self.stats["rows with restored values"] += 1

    def _note(self, k: int, seq: int) -> None:
        change = seq, self.ledger.born[k], self.texts.get(k, "")
        self.earlier.setdefault(k, []).append(change)

    def check(self, snapshot: Snapshot, visible: Callable[[Any], Iterable[Row]]) -> None:
        """Compare the values of visible rows with those that they have to have. Raises Violation.

        Args:
            snapshot: the table.
            visible: returns the rows of a part that no delete hides.
        """
        shown = self.ledger.expected()
        for path, marker in snapshot.live.items():
            found = {row["k"]: (row["u"], row["s"]) for row in self.parts[path]}
            for k, _, _ in visible(marker):
                if k not in shown:  # an older row of a key
                    continue
                right = self.ledger.born[k][2], self.texts.get(k, "")
                if found[k] != right:
                    raise Violation(f"row {k} of {path} has the values {found[k]}, not {right}")


# --- kernels --------------------------------------------------------------------------------------


_SQLITE = sqlite3.connect(":memory:", check_same_thread=False)


def no_check(*_given: Any) -> None:
    """Replace the check of expressions, which starts a process."""


def changed(query: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the values that the query of an update computes."""
    values = tuple(row[name] for name in ("k", "p", "u", "s"))
    new = {}
    for expression, column in _CAST.findall(query):
        sql = f"SELECT {expression} FROM (SELECT ? AS k, ? AS p, ? AS u, ? AS s)"  # noqa: S608
        (new[column],) = _SQLITE.execute(sql, values).fetchone()
    return {**row, **new}


# --- the actor ------------------------------------------------------------------------------------


def begin(stage: Stage, where: Hides, sql: str) -> Asked:
    """Draw the new values of an update, and note them for the run."""
    other = stage.r.random() < _OTHER_USER and stage.oracle.keyed is None
    user = stage.r.choice(stage.kind.users) if other else None
    asked = Asked(where, sql, stage.world.next_id(), user, began=stage.world.step)
    stage.oracle.updates.asked[stage.run.run_id] = asked
    return asked


def update_rows(stage: Stage, where: Hides, sql: str) -> None:
    """Update rows, or try once more what another process has begun."""
    updates = stage.oracle.updates
    open_still = [run for run, asked in updates.asked.items() if asked.may_be_tried_again]
    run = stage.run.run_id
    if open_still and stage.r.random() < _AGAIN:
        run = stage.r.choice(open_still)
    else:
        begin(stage, where, sql)
    asked = updates.asked[run]
    asked.tries += 1
    told = f"{' and '.join(asked.assignments)} where {asked.sql}"
    stage.actor.tell(f"begins: try {asked.tries} of {run}, {told}")
    identity = RunIdentity(run_id=run, try_number=asked.tries)
    options = UpdateOptions(set=asked.assignments, where=asked.sql, first_try=1)
    report = run_update(Work(stage.table, identity, stage.engine), options)
    asked.heard = True
    _check_told(updates.done.get(run), identity, report)
    stage.oracle.stats["update of an earlier try"] += report.earlier
    stage.oracle.stats["update planned again"] += report.replans


def _check_told(done: TxnHeader | None, run: RunIdentity, report: UpdateReport) -> None:
    """Check what an update says. Raises Violation.

    A try that found no such row says so, even if another one has found some that came later.
    """
    told = report.transaction
    if told is None:
        wrong = done is not None and done.run.try_number == run.try_number
    else:
        wrong = done is None or done.seq != told
    if wrong:
        raise Violation(f"{run.run_id} says that it has updated in transaction {told}")
