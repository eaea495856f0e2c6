"""Mistakes in the play of other settings."""

from __future__ import annotations

from tests.mutations.model import Mutation

WHAT_IF = (
    Mutation(
        name="a play reconstructs arrivals that the log still has",
        file="include/firnline/operations/what_if/arrivals.py",
        old="        made = [m for m in known if m.t <= horizon and not came_with(m)]",
        new="        made = [m for m in known if not came_with(m)]",
        breaks="What came of late is played twice, and every figure is too large.",
        caught_by=("tests/unit/operations/what_if/test_arrivals.py",),
        unit=True,
    ),
    Mutation(
        name="a play lets a part shrink at each merge",
        file="include/firnline/operations/what_if/play.py",
        old="        kept = sum(m.b for m in group.parts if m.p not in self.fresh)",
        new="        kept = 0",
        breaks="Bytes of a table vanish in the play, the more often they are merged.",
        caught_by=("tests/unit/operations/what_if/test_play.py",),
        unit=True,
    ),
    Mutation(
        name="a play does not plan again what waits for a time",
        file="include/firnline/operations/what_if/play.py",
        old="            waiting = now + 1 if plan.groups else plan.next_due",
        new="            waiting = now + 1 if plan.groups else None",
        breaks="Finished partitions keep their parts in the play, and cost nothing.",
        caught_by=("tests/unit/operations/what_if/test_play.py",),
        unit=True,
    ),
)
