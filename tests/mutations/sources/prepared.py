"""Mistakes in what is prepared, and committed or discarded later."""

from __future__ import annotations

from tests.mutations.model import Mutation

_UNIT = ("tests/unit/operations/prepared/test_run.py",)

PREPARED = (
    Mutation(
        name="a prepared change is committed whatever was deleted meanwhile",
        file="include/firnline/operations/prepared/record.py",
        old="        if found.d != each.d:\n",
        new="        if found.p != each.p:\n",
        breaks="Other rows become visible than the comparison showed.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a prepared change is committed beside rows that win over its own",
        file="include/firnline/operations/prepared/record.py",
        old='        if settings.primary_key:\n            return f"part',
        new='        if not settings.primary_key:\n            return f"part',
        breaks="Readers see other rows of a key than the comparison showed.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a discard after a decision to commit deletes the parts",
        file="include/firnline/operations/prepared/run.py",
        old='    if stands.verdict != "discard":\n',
        new="    if False:\n",
        breaks="A commit that is under way makes parts live that have no objects.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a discard does not look whether the log names the parts",
        file="include/firnline/operations/prepared/run.py",
        old="    named = [m.p for m in change.adds if m.p in snapshot.parts]\n",
        new="    named: list[str] = []\n",
        breaks="Live parts are deleted.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a sweep does not ask what somebody may approve",
        file="include/firnline/operations/sweep/plan.py",
        old="        if orphan.key in waiting:\n",
        new="        if False:\n",
        breaks="What somebody approves after days has no objects any more.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a commit that never came is ended at once",
        file="include/firnline/operations/prepared/expiry.py",
        old='            return "remove" if self._is_old(entry.closed) else None\n',
        new='            return "remove"\n',
        breaks="A commit that has read the statement before makes parts live that have no objects.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="an assertion that is null holds",
        file="include/firnline/kernel/query/assertions.py",
        old="    if rows[0][0] is not True:\n",
        new="    if rows[0][0] is False:\n",
        breaks="A change is committed that its user has ruled out.",
        caught_by=("tests/kernel/test_assertions.py",),
        unit=False,
    ),
    Mutation(
        name="rows that occur twice are one in a comparison",
        file="include/firnline/read/multiset.py",
        old="HAVING sum({weight}) <> 0",
        new="HAVING min({weight}) = max({weight})",
        breaks="A person approves that doubled rows go without being told.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="a commit does not look whether its parts are there",
        file="include/firnline/operations/prepared/run.py",
        old="    _refuse_other_objects(runner.table, change)\n",
        new="",
        breaks="Parts that an older firnline has swept become live, and every read fails.",
        caught_by=_UNIT,
        unit=True,
    ),
    Mutation(
        name="each group of partitions shows its own sample rows",
        file="include/firnline/operations/prepared/evidence.py",
        old="*_first(more.samples, left)",
        new="*more.samples",
        breaks="More rows are stored in the clear than somebody has asked for.",
        caught_by=("tests/unit/operations/prepared/test_evidence.py",),
        unit=True,
    ),
    Mutation(
        name="partitions that an executor could not compare are left out",
        file="include/firnline/spark/comparison.py",
        old="            raise _error_of(answer)\n",
        new="            continue\n",
        breaks="A person approves rows that nobody has compared.",
        caught_by=("tests/unit/spark/test_comparison.py",),
        unit=True,
    ),
)
