"""Plans a relocation: the objects that name another place, in the order to write them. Pure.

The order is the argument. Every reader of a log fetches the newest transaction's log file, or all
log files where there is no transaction. That one is written last, so that until everything else is
done readers meet the old place's keys and refuse the table.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firnline.errors import UsageError
from firnline.log.records import Marker, spelled
from firnline.log.relocation import Named
from firnline.paths import LogName, TablePaths

_BIRTH = TablePaths("").birth


@dataclass(frozen=True, slots=True)
class RelocationPlan:
    """Objects to write for the new place, in this order."""

    old: str
    """Key prefix of the place that they name."""
    new: str
    erases: tuple[str, ...]
    transactions: tuple[str, ...]
    """Transactions, with the birth record."""
    logs: tuple[str, ...]
    """The last one is what readers read."""
    checkpoints: tuple[str, ...]
    """Checkpoints to delete: a cache, which the next commit or clean-up writes again."""
    parts: int
    """Live parts; all are there."""
    bytes: int
    grace: int | None = None
    """The least ``cleanup.grace`` that the log names, ms; None: it names none."""

    @classmethod
    def of_nothing(cls, prefix: str) -> RelocationPlan:
        """Return the plan for a log that names the place where it lies."""
        return cls(prefix, prefix, (), (), (), (), 0, 0)

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals."""
        return {
            "from": self.old,
            "to": self.new,
            "logs": len(self.logs),
            "transactions": sum(not key.endswith(_BIRTH) for key in self.transactions),
            "certificates": len(self.erases),
            "checkpoints": len(self.checkpoints),
            "parts": self.parts,
            "bytes": self.bytes,
        }


def is_of(named: Named, old: TablePaths, new: TablePaths) -> bool:
    """Return True if the keys are those of the old place.

    Of two places that lie in each other's ``_data/`` the keys of the inner one fit both.
    """
    return named.fits(old) and (not named.fits(new) or len(old.prefix) > len(new.prefix))


@dataclass
class Seen:
    """The keys that log files and transactions name, gathered one by one."""

    paths: TablePaths
    """Paths of the new place."""
    asked: str | None = None
    """The old prefix, if an operator has stated it."""
    foreign: list[str] = field(default_factory=list)
    """Objects that name another place."""
    prefixes: frozenset[str] | None = None
    """Possible prefixes of the other place."""
    first: tuple[str, frozenset[str]] = ("", frozenset())
    newest: int = 0
    """Newest transaction whose log file says so; 0 in a table of version 1."""
    folded: set[str] = field(default_factory=set)
    """Names of log files that transactions of ours have folded."""
    alive: dict[str, int] = field(default_factory=dict)
    """Key of a part as it is named -> bytes."""
    dead: set[str] = field(default_factory=set)
    spelled: dict[str, str] = field(default_factory=dict)
    """Key of a part in the new place -> the key that its marker spells, where the two differ."""
    spelled_dead: set[str] = field(default_factory=set)
    """Those of them that are dead."""
    grace: int | None = None
    """The least ``cleanup.grace`` among the table's properties, ms."""

    def take(self, key: str, named: Named, *, parts: bool = True) -> None:
        """Add an object.

        Args:
            key: of the object.
            named: the keys in it.
            parts: count its markers.

        Raises UsageError for keys of two places.
        """
        if named.content.x is not None:
            self.newest = max(self.newest, named.content.x.seq)
            self.folded.update(_name(tombstone.p) for tombstone in named.content.tombstones)
        for record in named.content.properties:
            self.grace = min(record.values.grace, self.grace or record.values.grace)
        for marker in named.content.markers if parts else ():
            self.alive[marker.p] = marker.b
            self._take_spelling(marker)
            if marker.tmb is not None:
                self.dead.add(marker.p)
        asked = self.asked is not None and is_of(named, TablePaths(self.asked), self.paths)
        if named.nothing or (named.fits(self.paths) and not asked):
            return
        self.foreign.append(key)
        self._agree(key, named.prefixes())

    def _take_spelling(self, marker: Marker) -> None:
        name = spelled(marker)
        if name != marker.p:
            inside, written = (key.partition("_data/")[2] for key in (marker.p, name))
            at = self.paths.data_dir
            self.spelled[f"{at}{inside}"] = f"{at}{written}"
            if marker.tmb is not None:
                self.spelled_dead.add(f"{at}{inside}")

    def _agree(self, key: str, prefixes: frozenset[str]) -> None:
        if self.asked is not None:
            prefixes &= {self.asked}
        if not prefixes:
            raise UsageError(
                f"{key} names objects of more than one place"
                if self.asked is None
                else f"{key} names objects of another place than {self.asked or '(no prefix)'}",
                next_step="look what was copied here: a table names objects of one place only",
            )
        common = prefixes if self.prefixes is None else self.prefixes & prefixes
        if not common:
            raise UsageError(
                f"{self.first[0]} names objects of a table at {_shown(self.first[1])}, and {key} "
                f"objects of one at {_shown(prefixes)}",
                next_step="move the objects of one of the two out of the way: a table is copied "
                "to a place of its own",
            )
        if self.prefixes is None:
            self.first = (key, prefixes)
        self.prefixes = common

    def old(self) -> str:
        """Return the old prefix. Raises UsageError when it may be one of several."""
        prefixes = sorted(self.prefixes or ())
        if len(prefixes) == 1:
            return prefixes[0]
        raise UsageError(
            f"the table may have been at any of {_shown(prefixes)}", next_step="say it with --from"
        )

    def live(self, old: TablePaths) -> dict[str, int]:
        """Live parts: key in the new place -> bytes."""
        places = (old, self.paths)
        dead = {_moved(key, places, self.paths) for key in self.dead}
        alive = {_moved(key, places, self.paths): size for key, size in self.alive.items()}
        return {key: size for key, size in alive.items() if key not in dead}


def _moved(key: str, places: Sequence[TablePaths], new: TablePaths) -> str:
    for paths in places:
        if key.startswith(paths.data_dir):
            return new.data_dir + key.removeprefix(paths.data_dir)
    return key


def _shown(prefixes: Sequence[str] | frozenset[str]) -> str:
    return " or ".join(prefix or "(no prefix)" for prefix in sorted(prefixes))


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def in_order(logs: Mapping[str, LogName], seen: Seen) -> tuple[str, ...]:
    """Order log files that name another place: first those nobody reads first, last that all read.

    Args:
        logs: all log files, by key.
        seen: what they name.
    """
    foreign = [key for key in seen.foreign if key in logs]
    return tuple(
        sorted(foreign, key=lambda key: (_name(key) not in seen.folded, logs[key].seq, key))
    )


def refuse_missing(
    live: Mapping[str, int], objects: Mapping[str, int], paths: TablePaths, step: str
) -> None:
    """Raise UsageError where a live part has no object, or one of another size.

    Args:
        live: key -> bytes, as the log says.
        objects: key -> bytes of everything under ``_data/``.
        paths: of the table.
        step: what to do then.
    """
    lost = sorted(key for key in live if key not in objects)
    if lost:
        raise UsageError(
            f"{len(lost)} of {len(live)} live parts are not under {paths.data_dir}, {lost[0]} is "
            "the first",
            next_step=f"{step}; nothing was written",
        )
    cut = next((key for key in sorted(live) if objects[key] != live[key]), None)
    if cut is not None:
        raise UsageError(
            f"part {cut} has {objects[cut]} bytes, and {live[cut]} by the log",
            next_step=f"{step}; nothing was written",
        )


def refuse_without(newest: int, transactions: Container[str], paths: TablePaths, step: str) -> None:
    """Raise UsageError where ``_txn/`` lacks the newest transaction that the log knows.

    An append would take itself for older than all deletes, which would hide its rows.

    Args:
        newest: its number; 0 without one.
        transactions: keys under ``_txn/``.
        paths: of the table.
        step: what to do then.
    """
    if newest and paths.txn(newest) not in transactions:
        raise UsageError(
            f"the log names transaction {newest}, and there is no {paths.txn(newest)}",
            next_step=f"{step}; nothing was written",
        )
