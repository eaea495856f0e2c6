"""Mistakes about objects that are lost: appends, the judgement of a log, and rebuilds."""

from __future__ import annotations

from tests.mutations.model import Mutation

_APPEND = ("tests/unit/appends/test_lost_history.py",)
_REBUILD = ("tests/unit/operations/rebuild/test_lost_history.py",)
_PLAN = ("tests/unit/operations/rebuild/test_plan.py",)
_EFFECT = ("tests/unit/state/test_effect.py",)

LOST: tuple[Mutation, ...] = (
    Mutation(
        name="an append goes by what is left under _txn/",
        file="include/firnline/appends/append.py",
        old="            self._logged = self.columns.seq\n",
        new="            return self._origin(began), union\n",
        breaks="Rows are appended under a delete of before, and the next merge removes them.",
        caught_by=_APPEND,
    ),
    Mutation(
        name="a writer that has looked before does not see what is gone",
        file="include/firnline/appends/append.py",
        old="        after = table.paths.txn(self._seq - 1) if self._seq else None",
        new="        began, newest = table.clock.elapsed_ms(), self._seq\n"
        "        after = table.paths.txn(self._seq) if self._seq else None",
        breaks="A service that runs appends rows under a delete whose object is gone.",
        caught_by=_APPEND,
    ),
    Mutation(
        name="a writer whose columns are given does not look at the log",
        file="include/firnline/appends/columns.py",
        old="            if self._given and not self._listed:",
        new="            if self._given and self._listed is None:",
        breaks="Rows of a writer that knows its columns are hidden by a delete of before.",
        caught_by=_APPEND,
    ),
    Mutation(
        name="properties are those of an older object",
        file="include/firnline/appends/append.py",
        old="        self._said = (base.seq, self._born, base.properties)",
        new="        self._said = None",
        breaks="An append goes by properties that are no longer in force.",
        caught_by=_APPEND,
    ),
    Mutation(
        name="an append says nothing of the transaction that it had seen",
        file="include/firnline/state/health.py",
        old="    if log.began_after > max(before, newest):",
        new="    if log.began_after < 0:",
        breaks="Deleted rows are there again for readers of a log that lost a transaction.",
        caught_by=_APPEND,
    ),
    Mutation(
        name="a part that is named in the future is young",
        file="include/firnline/log/dated.py",
        old="    return modified if trusted is None else max(trusted, modified)",
        new="    return modified if named is None else max(named, modified)",
        breaks="A table whose log is lost is created anew, and its rows are forgotten.",
        caught_by=("tests/unit/state/test_health.py",),
    ),
    Mutation(
        name="a rebuild brings back without a question",
        file="include/firnline/operations/rebuild/run.py",
        old="    if plan.lost and not revive:",
        new="    if plan.lost is None:",
        breaks="Rows that were deleted are in the table again, and nobody was asked.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="a rebuild reads no certificate",
        file="include/firnline/operations/rebuild/judge.py",
        old="        if erased is not None:",
        new="        if erased is not None and not facts.key:",
        breaks="Rows that were certified as gone are in the table again.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="an old log file outweighs a certificate",
        file="include/firnline/operations/rebuild/plan.py",
        old="        if erase is not None:",
        new="        if erase is not None and not marker.p:",
        breaks="Rows that were certified as gone are in the table again.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="a rebuild does not ask for what a lost erase has not read",
        file="include/firnline/operations/rebuild/judge.py",
        old="            if before and not known and not parts.is_clean(facts.key):",
        new="            if before and known and not parts.is_clean(facts.key):",
        breaks="Rows of erased keys come back with parts that the erase had excluded.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="one output stands for all that went in",
        file="include/firnline/operations/rebuild/siblings.py",
        old="    if sum(stated) == written:",
        new="    if sum(stated) >= written:",
        breaks="Rows of an output that was left out, or is gone, are lost without a word.",
        caught_by=_PLAN,
    ),
    Mutation(
        name="numbers that mirrors, checkpoints and records name are given again",
        file="include/firnline/operations/rebuild/inventory.py",
        old="    newest = Newest.of(log, txns, elsewhere, stated)",
        new="    newest = Newest.of(log, txns, Elsewhere(), stated)",
        breaks="A certificate certifies another transaction.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="a rebuild does not miss what the newest transaction stands on",
        file="include/firnline/operations/rebuild/gone.py",
        old="    missing = set(standing) - present.keys() if standing is not None",
        new="    missing = set() if standing is not None",
        breaks="Rows that a lost transaction had deleted come back without a question.",
        caught_by=_REBUILD,
    ),
    Mutation(
        name="a transaction counts that never took effect",
        file="include/firnline/state/effect.py",
        old="        elif not is_named and (others or other):",
        new="        elif not is_named and other is None:",
        breaks="A rebuild drops live rows, as a process wanted that slept for days.",
        caught_by=_EFFECT,
    ),
    Mutation(
        name="a transaction counts that lies below a gap",
        file="include/firnline/state/effect.py",
        old="        elif standing is not None and seq < first and seq not in standing:",
        new="        elif standing is None and seq < first:",
        breaks="A rebuild drops live rows, as a process wanted that slept for days.",
        caught_by=_EFFECT,
    ),
)
