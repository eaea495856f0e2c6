"""Who meets whom in the model.

``SMALL`` are the worlds of every run: as few processes as show what a rule is for. ``LARGE`` have
the same processes with all of their steps, and more of them.
"""

from __future__ import annotations

from simulation.model.committer import delete, drop, mark, merge, rival, steps
from simulation.model.erases import certificate, erase
from simulation.model.others import append, clean_up, forget, read_parts, sweep
from simulation.model.sleepers import (
    a_commit,
    an_append,
    appends_at_once,
    cleaner,
    dying,
    echo,
    late_append,
    sweeper,
    torn,
)
from simulation.model.world import Scenario

ONE = ("part 1",)

SMALL = (
    Scenario(
        "a lost answer",
        "a merge whose answers are lost",
        (("the merge", steps(merge)),),
        ticks=1,
        lost_answers=True,
    ),
    Scenario(
        "rivals",
        "a merge, another one, a delete and an append want the same number",
        (
            ("the merge", steps(merge)),
            ("another", rival(merge, 1)),
            ("the delete", rival(delete, 1)),
            ("append 3", append),
        ),
        ticks=0,
        hides=frozenset({"row 1", "row 3"}),
    ),
    Scenario(
        "unpublished",
        "a delete dies before its publication, and an append begins",
        (("the delete", dying(delete)), ("append 3", append), ("a rival", rival(mark, 1))),
        ticks=1,
        hides=frozenset({"row 1", "row 3"}),
    ),
    Scenario(
        "awake",
        "nobody sleeps longer than between two requests",
        (("the merge", steps(merge)), ("append 3", append), ("the sweep", sweep)),
        ticks=2,
        parts=ONE,
        sleepers=False,
    ),
    Scenario(
        "outputs",
        "a merge sleeps, and a sweep meets its output",
        (("the merge", steps(merge)), ("a rival", rival(mark, 1)), ("the sweep", sweep)),
        ticks=3,
        parts=ONE,
    ),
    Scenario(
        "appends",
        "an append sleeps before its log file, and a sweep meets its part",
        (("append 3", append), ("a rival", rival(mark, 2)), ("the sweep", sweep)),
        ticks=3,
        parts=ONE,
        lost_answers=True,
    ),
    Scenario(
        "appends under a delete",
        "an append sleeps before its log file while the record of a delete grows old",
        (("append 3", append), ("the delete", rival(delete, 1)), ("a rival", rival(mark, 2))),
        ticks=3,
        parts=ONE,
        hides=frozenset({"row 3"}),
        wait=3,
    ),
    Scenario(
        "numbers",
        "a delete sleeps while its number is used, superseded and deleted",
        (("the delete", steps(delete)), ("a rival", rival(mark, 3)), ("clean-up", cleaner(1))),
        ticks=2,
        parts=ONE,
        kept=1,
    ),
    Scenario(
        "numbers of merges",
        "a merge sleeps after its put while others commit, fold and delete",
        (("the merge", steps(merge)), ("a rival", rival(mark, 3)), ("clean-up", cleaner(2))),
        ticks=3,
        parts=ONE,
        kept=1,
    ),
    Scenario(
        "two sleepers",
        "a merge finds that another sleeper has its number",
        (
            ("the merge", steps(merge)),
            ("another sleeper", dying(mark)),
            ("a rival", rival(mark, 2)),
            ("clean-up", cleaner(1)),
        ),
        ticks=2,
        parts=ONE,
        kept=1,
        lost_answers=True,
    ),
    Scenario(
        "below a gap",
        "a merge takes a number that was freed, and dies",
        (("the merge", dying(merge)), ("a rival", rival(mark, 3)), ("clean-up", cleaner(2))),
        ticks=2,
        parts=ONE,
        kept=1,
    ),
    Scenario(
        "appends that come back",
        "an append puts its log file again after it was folded and deleted",
        (
            ("append 3", appends_at_once),
            ("its repeated put", echo(an_append)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", cleaner(2)),
        ),
        ticks=2,
        parts=ONE,
        drops=True,
    ),
    Scenario(
        "publications that come back",
        "a transaction is published again after its log file was folded and deleted",
        (
            ("its publisher", echo(a_commit)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 2)),
            ("clean-up", cleaner(2)),
        ),
        ticks=3,
        parts=ONE,
        drops=True,
    ),
    Scenario(
        "late publications",
        "a merge dies before its publication, and a reader and a clean-up see it late",
        (
            ("the merge", dying(merge)),
            ("a rival", rival(mark, 1)),
            ("a reader", read_parts),
            ("clean-up", clean_up()),
            ("the sweep", sweep),
        ),
        ticks=2,
        parts=ONE,
    ),
    Scenario(
        "late publishers",
        "nobody sleeps, and a transaction is published by whoever finds it",
        (
            ("the mark", steps(mark)),
            ("the drop", rival(drop, 1)),
            ("clean-up", cleaner(2)),
            ("a rival", rival(mark, 1)),
        ),
        ticks=3,
        parts=ONE,
        sleepers=False,
        drops=True,
    ),
    Scenario(
        "readers of late appends",
        "a reader reads an append that landed too late, right before the fence passes it",
        (
            ("append 3", late_append),
            ("a mark", dying(mark)),
            ("a rival", rival(mark, 1)),
            ("a reader", read_parts),
            ("clean-up", cleaner(1, publishes=True)),
            ("the sweep", sweeper),
        ),
        ticks=3,
        parts=ONE,
        kept=9,
    ),
    Scenario(
        "tiers",
        "folds leave the first log file, which lists parts alive that are dead",
        (
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up()),
        ),
        ticks=2,
        parts=ONE,
        tiers=True,
        drops=True,
    ),
    Scenario(
        "an erase",
        "a merge sleeps before its put, while a row is erased and certified as gone",
        (
            ("the merge", dying(merge)),
            ("the erase", rival(erase, 1)),
            ("clean-up", cleaner(1)),
            ("the sweep", sweep),
            ("the certificate", certificate),
        ),
        ticks=3,
        parts=ONE,
    ),
    Scenario(
        "a torn listing",
        "a transaction is prepared on a listing of two pages, while an append lands and is folded",
        (
            ("append 3", appends_at_once),
            ("the committer", torn),
            ("a rival", rival(mark, 1)),
        ),
        ticks=0,
        parts=ONE,
    ),
)

LARGE = (
    Scenario(
        "outputs of sleepers",
        "as outputs, with more transactions between",
        (("the merge", steps(merge)), ("a rival", rival(mark, 2)), ("the sweep", sweep)),
        ticks=3,
    ),
    Scenario(
        "numbers with lost answers",
        "as numbers, and answers are lost; clean-up deletes one object a step",
        (("the delete", steps(delete)), ("a rival", rival(mark, 4)), ("clean-up", forget())),
        ticks=3,
        lost_answers=True,
    ),
    Scenario(
        "two whole sleepers",
        "as two sleepers, and both go on after they woke",
        (
            ("the merge", steps(merge)),
            ("another sleeper", steps(mark)),
            ("a rival", rival(mark, 2)),
            ("clean-up", forget()),
        ),
        ticks=2,
        parts=ONE,
        kept=1,
        lost_answers=True,
    ),
    Scenario(
        "appends, deletes and a sweep",
        "an append sleeps before its log file, beside a delete, a sweep and folds",
        (
            ("append 3", append),
            ("the delete", rival(delete, 1)),
            ("a rival", rival(mark, 2)),
            ("the sweep", sweep),
        ),
        ticks=3,
        hides=frozenset({"row 1", "row 3"}),
        lost_answers=True,
    ),
    Scenario(
        "publications and a whole clean-up",
        "a transaction is published once more after its log file was folded and deleted",
        (
            ("the mark", steps(mark)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=ONE,
        drops=True,
    ),
    Scenario(
        "appends and a whole clean-up",
        "an append puts its log file again after it was folded and deleted",
        (
            ("append 3", append),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=ONE,
        lost_answers=True,
        drops=True,
    ),
    Scenario(
        "merges and a whole clean-up",
        "a merge is published once more after its output is gone",
        (
            ("the merge", steps(merge)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=ONE,
        drops=True,
    ),
    Scenario(
        "whole rivals",
        "two merges, a delete and an append want the same number, and answers are lost",
        (
            ("merge A", steps(merge)),
            ("merge B", steps(merge)),
            ("the delete", steps(delete)),
            ("append 3", append),
        ),
        ticks=0,
        hides=frozenset({"row 1", "row 3"}),
        lost_answers=True,
    ),
    Scenario(
        "readers",
        "a merge, a clean-up, a sweep and a reader within its grace",
        (
            ("the merge", steps(merge)),
            ("clean-up", clean_up()),
            ("a reader", read_parts),
            ("the sweep", sweep),
        ),
        ticks=3,
    ),
)
