"""Legal holds: actors that put and end them, and what must stay until then.

Only worlds of ``HOLDING`` seeds have them, so all others are what they were without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from firnline.log.records import Delete
from firnline.log.txn_file import TxnHeader
from firnline.operations.hold.run import list_holds, run_end, run_hold
from firnline.operations.operation import Work
from firnline.operations.options import EndHoldOptions, HoldOptions
from firnline.predicate.tree import And, Not, parse_json, to_json
from firnline.state.snapshot import Snapshot
from simulation.hides import Hides
from simulation.keyed import Keyed, Row
from simulation.kinds import is_tombstone
from simulation.mix import Mix
from simulation.world import Violation, World

if TYPE_CHECKING:
    from simulation.stage import Stage

HOLDING = range(20_000, 21_000)
"""Seeds of worlds with legal holds."""
_PARTITIONS = "xy"
_AT_ONCE = 2
"""Holds in force at most: beside more of them nearly everything is refused."""
_WEIGHTS: dict[str, float] = {"hold": 1.0, "end_hold": 1.0, "append": 3.0, "merge": 2.0}
_AGING: dict[str, float] = {"expire": 2.0, "delete": 1.5, "erase": 0.5, "rewrite": 1.0}


def mix_of(mix: Mix, seed: int) -> Mix:
    """Return the mix of such a seed: in every second one rows have a time to live."""
    cleanup = max(1.0, mix.weights["cleanup"])
    mix = replace(mix, weights=mix.weights | _WEIGHTS | {"cleanup": cleanup})
    if seed % 2:
        return mix
    return replace(mix, kind="aging", deletes=True, weights=mix.weights | _AGING)


# --- what has to stay -----------------------------------------------------------------------------


@dataclass
class _InForce:
    """A hold that a transaction has stated."""

    covers: Hides
    where: str
    since: int
    """Step of that transaction."""
    dead: frozenset[str]
    """Parts that were dropped or replaced before, and have rows of it."""
    rows: set[int] = field(default_factory=set)
    """Rows of it that have been visible since."""


@dataclass
class Holds:
    """The holds of a world, and the rows that they have to keep."""

    world: World
    born: Mapping[int, tuple[int, str, str]]
    born_at: Mapping[int, int]
    part_rows: Mapping[str, Sequence[Row]]
    keyed: Keyed | None
    stats: Counter[str]
    asked: dict[str, Hides] = field(default_factory=dict)
    """Name -> rows, from before it was put."""
    conditions: dict[str, Hides] = field(default_factory=dict)
    """Condition of a hold as JSON -> the rows that a delete spares for it."""
    in_force: dict[str, _InForce] = field(default_factory=dict)
    _looked: int = -1
    """Step of the last check."""

    def committed(self, header: TxnHeader, after: Callable[[], Snapshot]) -> None:
        """Take in the holds that a transaction states."""
        if header.properties is None:
            return
        stated = {hold.name: hold for hold in header.properties.held}
        for name in self.in_force.keys() - stated.keys():
            del self.in_force[name]
            self.stats["hold ended"] += 1
        for name in stated.keys() - self.in_force.keys():
            covers, where = self.asked[name], stated[name].where
            if where:  # a delete spares such rows wherever they are
                self.conditions[where] = replace(covers, partitions=frozenset(_PARTITIONS))
            dead = self._dead(covers, after())
            self.in_force[name] = _InForce(covers, where, self.world.step, dead)
            self.stats["hold put"] += 1
            self.stats["dead parts held"] += len(dead)

    def _dead(self, covers: Hides, snapshot: Snapshot) -> frozenset[str]:
        return frozenset(
            path
            for path, marker in snapshot.parts.items()
            if marker.tmb is not None
            and path in self.world.objects
            and any(covers.row(*row) for row in self.part_rows[path])
        )

    def spared(self, delete: Delete) -> tuple[Hides, ...]:
        """Return the rows that the record of a delete spares by its own words."""
        tree = parse_json(delete.where)
        args = tree.args if isinstance(tree, And) else ()
        left = {to_json(arg.arg).decode() for arg in args if isinstance(arg, Not)}
        return tuple(rows for where, rows in self.conditions.items() if where in left)

    def check(self, right: set[int]) -> None:
        """Check that all rows are visible that were so under a hold. Raises Violation.

        Args:
            right: the rows that the table shows.
        """
        for name, hold in self.in_force.items():
            gone = hold.rows - right
            if lost := [k for k in gone if k in self.born and not self._superseded(k, right)]:
                raise Violation(f"rows {sorted(lost)[:5]} of the legal hold {name!r} are gone")
            hold.rows -= gone
            new = {k for k in right - hold.rows if hold.covers.row(k, *self.born[k][1:])}
            self.stats["rows held"] += len(new)
            hold.rows |= new
        self._looked = self.world.step

    def _superseded(self, k: int, right: set[int]) -> bool:
        """Return True for a row whose key has another one, or a tombstone that has just landed."""
        if self.keyed is None:
            return False
        return any(
            other in right or (is_tombstone(other) and self.born_at[other] > self._looked)
            for other in self._of_key(self.born[k][1:])
            if other != k
        )

    def _of_key(self, key: tuple[str, ...]) -> Iterator[int]:
        return (other for other, row in self.born.items() if row[1:] == key)

    def deleted(self, key: str, began: int) -> None:
        """Check the deletion of an object. Raises Violation.

        Args:
            key: of the object.
            began: step in which began who deletes it; a clean-up from before a hold knows none.
        """
        for name, hold in self.in_force.items():
            if key in hold.dead and began > hold.since:
                raise Violation(
                    f"part {key}, which had died before the legal hold {name!r}, is deleted"
                )


# --- actors ---------------------------------------------------------------------------------------


def put_hold(stage: Stage) -> None:
    """Put a hold by a condition, by partitions, or by both."""
    r, holds = stage.r, stage.oracle.holds
    if len(holds.in_force) >= _AT_ONCE:
        return
    name = f"case {stage.world.next_id()}"
    users = frozenset(r.choice([*stage.kind.users, "uv"]))
    names = ", ".join(f"'{user}'" for user in sorted(users))
    where, partition = r.choice(
        [(f"u IN ({names})", None)] * 3 + [(None, "x"), (None, "y"), (f"u IN ({names})", "x")]
    )
    covered = users if where else frozenset(stage.kind.users)
    holds.asked[name] = Hides(frozenset(partition or _PARTITIONS), covered)
    stage.actor.tell(f"begins: {name}, {where or 'all rows'} in {partition or 'all'}")
    options = HoldOptions(
        name=name,
        where=where,
        partitions=(f"p={partition}",) if partition else (),
        why="a case",
        by="sim",
    )
    run_hold(Work(stage.table, stage.run), options)


def named_partitions(stage: Stage, hides: Hides) -> tuple[str, ...]:
    """Return partitions that a delete names: beside holds of others it has to."""
    if not stage.world.mix.weights.get("hold") or stage.kind.moves:
        return ()  # where the layout changes, rows of one partition are in others, too
    return () if len(hides.partitions) > 1 else tuple(f"p={name}" for name in hides.partitions)


def end_hold(stage: Stage) -> None:
    """End a hold, even if somebody is doing so."""
    found = list(stage.oracle.holds.in_force)
    if found:
        _end(stage, stage.r.choice(found))


def end_all(stage: Stage) -> None:
    """End what is left, so that a clean-up can delete all that is dead."""
    for hold in list_holds(stage.table).holds:
        _end(stage, hold.name)


def _end(stage: Stage, name: str) -> None:
    stage.actor.tell(f"ends the hold {name}")
    run_end(Work(stage.table, stage.run), EndHoldOptions(name=name, why="the case is closed"))
