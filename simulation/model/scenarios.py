"""Who meets whom in the model."""

from __future__ import annotations

from simulation.model.committer import delete, drop, mark, merge, rival, steps
from simulation.model.others import append, clean_up, forget, read_parts, sweep
from simulation.model.world import Scenario

SCENARIOS = (
    Scenario(
        "outputs",
        "a merge sleeps, and a sweep meets its output",
        (("the merge", steps(merge)), ("a rival", rival(mark, 2)), ("the sweep", sweep)),
        ticks=3,
    ),
    Scenario(
        "numbers",
        "a delete sleeps while its number is used, superseded and deleted",
        (("the delete", steps(delete)), ("a rival", rival(mark, 4)), ("clean-up", forget())),
        ticks=3,
        lost_answers=True,
    ),
    Scenario(
        "numbers of merges",
        "a merge sleeps while its number is used, superseded and deleted",
        (("the merge", steps(merge)), ("a rival", rival(mark, 3)), ("clean-up", forget())),
        ticks=2,
        tiers=True,
        parts=("part 1",),
        kept=1,
    ),
    Scenario(
        "numbers of merges with lost answers",
        "a merge reads back its number after it was used, superseded and deleted",
        (("the merge", steps(merge)), ("a rival", rival(mark, 3)), ("clean-up", forget())),
        ticks=2,
        parts=("part 1",),
        kept=1,
        lost_answers=True,
    ),
    Scenario(
        "two sleepers",
        "a merge finds that another sleeper has its number",
        (
            ("the merge", steps(merge)),
            ("another sleeper", steps(mark)),
            ("a rival", rival(mark, 2)),
            ("clean-up", forget()),
        ),
        ticks=2,
        parts=("part 1",),
        kept=1,
        lost_answers=True,
    ),
    Scenario(
        "appends",
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
        "publications",
        "a transaction is published once more after its log file was folded and deleted",
        (
            ("the delete", steps(mark)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=("part 1",),
        hides=frozenset(),
        drops=True,
    ),
    Scenario(
        "appends that come back",
        "an append puts its log file again after it was folded and deleted",
        (
            ("append 3", append),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=("part 1",),
        lost_answers=True,
        drops=True,
    ),
    Scenario(
        "publications of merges",
        "a merge is published once more after its output is gone",
        (
            ("the merge", steps(merge)),
            ("the drop", rival(drop, 1)),
            ("a rival", rival(mark, 1)),
            ("clean-up", clean_up(2)),
        ),
        ticks=3,
        parts=("part 1",),
        drops=True,
    ),
    Scenario(
        "rivals",
        "two merges and a delete want the same number",
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
        "a merge, a clean-up and a reader within its grace",
        (("the merge", steps(merge)), ("clean-up", clean_up()), ("a reader", read_parts),
         ("the sweep", sweep)),
        ticks=3,
    ),
)
