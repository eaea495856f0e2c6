"""The plans of a legal hold and of its end: pure, printable (docs/format.md, "Legal holds")."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from firnline.commit.base import Base
from firnline.errors import UsageError, quoted, some
from firnline.log.reader import time_after
from firnline.log.records import Marker
from firnline.operations.delete.run import parse_where
from firnline.operations.options import EndHoldOptions, HoldOptions
from firnline.predicate.tree import to_json
from firnline.properties.in_force import from_settings
from firnline.properties.record import Hold, Properties
from firnline.shown import ShownFigures
from firnline.state.dead import unpurged
from firnline.state.holds import Held
from firnline.state.partitions import choose
from firnline.state.snapshot import Snapshot

_LONGEST = 1_000
"""Characters of a reason, and of a name."""


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that may have rows of a hold."""

    parts: int
    rows: int
    """All rows of these parts that state them: rows of the hold at most."""
    bytes: int


class HeldFigures(Hold, frozen=True, kw_only=True, omit_defaults=False):
    """A hold, and what it covers."""

    live: Covered
    dead: Covered
    """Parts that were dropped or replaced before the hold, and that clean-up keeps for it. Where no
    listing was made, some of them may have been deleted before the hold."""


class HoldPlan(ShownFigures, msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a hold, or of its end."""

    seq: int
    hold: HeldFigures
    after: Properties
    """The properties of the table afterwards."""

    @property
    def nothing_to_do(self) -> bool:
        """Never: a hold is put also where no part has such rows yet."""
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"seq": self.seq, "hold": msgspec.to_builtins(self.hold)}


def plan_hold(base: Base, options: HoldOptions, now_ms: int, user: str) -> HoldPlan:
    """Plan to put a hold.

    Args:
        base: the newest state.
        options: which rows, who and why.
        now_ms: wall clock, unix ms; the commit replaces the time of the hold by its own.
        user: who puts it, if the options do not say.

    Raises UsageError: no name, reason, person or rows; a name that is taken; a condition that is
    none; a glob that matches no partition.
    """
    snapshot, stated = base.snapshot, _stated(base)
    named = {"a name": options.name, "a reason (why)": options.why}
    for what, text in named.items():
        if not 0 < len((text or "").strip()) <= _LONGEST:
            raise UsageError(
                f"a legal hold has {what} of 1 to {_LONGEST:,} characters", next_step="write one"
            )
    if not options.where and not options.partitions:
        raise UsageError(
            "a legal hold names rows by a condition, partitions, or both",
            next_step="give where or partitions; for the whole table partitions '*'",
        )
    if options.name in [hold.name for hold in stated.held]:
        raise UsageError(
            f"there is a legal hold {quoted(options.name)} already",
            next_step="choose another name; `firnline hold TABLE` lists those in force",
        )
    choose(snapshot.partitions, options.partitions)
    where = parse_where(options.where, snapshot) if options.where else None
    hold = Hold(
        name=options.name,
        where="" if where is None else to_json(where).decode(),
        partitions=options.partitions,
        by=options.by or user,
        why=options.why or "",
        t=time_after((item.name for item in snapshot.listing.values()), now_ms),
        approved_by=options.approved_by or "",
    )
    after = msgspec.structs.replace(stated, holds=(*stated.held, hold))
    return HoldPlan(seq=snapshot.seq, hold=figures_of(snapshot, hold), after=after)


def plan_end(base: Base, options: EndHoldOptions) -> HoldPlan:
    """Plan to end a hold. Raises UsageError: there is none of this name, or no reason is given."""
    stated = _stated(base)
    if not (options.why or "").strip():
        raise UsageError("the end of a legal hold has a reason (why)", next_step="write one")
    found = next((hold for hold in stated.held if hold.name == options.name), None)
    if found is None:
        raise UsageError(
            f"there is no legal hold {quoted(options.name)}"
            + ("" if stated.held else ", nor any other: no hold is in force"),
            next_step=f"name one of those in force: {some([hold.name for hold in stated.held])}"
            if stated.held
            else "there is nothing to end",
        )
    rest = tuple(hold for hold in stated.held if hold is not found)
    after = msgspec.structs.replace(stated, holds=rest)
    return HoldPlan(seq=base.seq, hold=figures_of(base.snapshot, found), after=after)


def figures_of(snapshot: Snapshot, hold: Hold, gone: Container[str] = ()) -> HeldFigures:
    """Return a hold with the parts that may have rows of it.

    Args:
        snapshot: the state.
        hold: put or planned.
        gone: dead parts without an object, where that is known: nothing keeps them.
    """
    held = Held(snapshot, (hold,))
    place = snapshot.paths.partition_of
    dead = (m for m in unpurged(snapshot).values() if m.p not in gone)
    return HeldFigures(
        **{name: getattr(hold, name) for name in Hold.__struct_fields__},
        live=_covered(m for m in snapshot.live.values() if held.covering(m, place(m.p))),
        dead=_covered(m for m in dead if held.covering_dead(m, place(m.p))),
    )


def _covered(markers: Iterable[Marker]) -> Covered:
    found = list(markers)
    return Covered(
        parts=len(found), rows=sum(m.n or 0 for m in found), bytes=sum(m.b for m in found)
    )


def _stated(base: Base) -> Properties:
    return base.properties or from_settings(base.table.settings)
