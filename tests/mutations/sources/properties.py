"""Mistakes in who goes by which properties of a table."""

from __future__ import annotations

from tests.mutations.model import Mutation

_TESTS = ("tests/unit/operations/properties/test_run.py",)

PROPERTIES = (
    Mutation(
        name="a fold forgets deletes by the newest properties alone",
        file="include/firnline/commit/transaction.py",
        old="    others = waits(snapshot.properties, table.settings, listed_at)\n",
        new="    others = waits((), table.settings, listed_at)\n",
        breaks="Rows of a delete come back by an append that began by a longer append.ttl.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="clean-up goes by the newest grace alone",
        file="include/firnline/operations/cleanup/plan.py",
        old="    parts = _dead_parts(snapshot, others.grace, now_ms)",
        new="    parts = _dead_parts(snapshot, settings.cleanup.grace, now_ms)",
        breaks="A reader who began by a longer grace loses its parts.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="a sweep goes by the newest properties alone",
        file="include/firnline/operations/sweep/run.py",
        old="    others = waits(base.snapshot.properties, table.settings, began)",
        new="    others = waits((), table.settings, began)",
        breaks="An append by a longer append.ttl is acknowledged, and its parts are gone.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="the first append of a table looks for no rival",
        file="include/firnline/commit/append_log.py",
        old="    told = look_again(table)",
        new="    told = None",
        breaks="A table has rows that were written by another key than its own.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="the first append of a table goes by its own ttl",
        file="include/firnline/commit/append_log.py",
        old="    ttl = min(ttl, LONGEST_UNTOLD_MS, ttl if told is None else told.append_ttl)",
        new="    ttl = min(ttl, ttl if told is None else told.append_ttl)",
        breaks="A sweep by other settings deletes its parts right before it is acknowledged.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="an append is put again however long ago its first put was",
        file="include/firnline/commit/append_log.py",
        old="elapsed_ms() + put_within(table.settings))",
        new="elapsed_ms() + 2 * ttl)",
        breaks="A log file that was folded and deleted comes back, and names parts that are gone.",
        caught_by=("tests/unit/appends/test_run.py",),
    ),
    Mutation(
        name="a change of the key does not end what was planned before",
        file="include/firnline/commit/transaction.py",
        old="        _refuse_other_properties(base, planned_by, change)",
        new="        _ = planned_by",
        breaks="Parts that were merged by another key are committed.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="settings of another key are not refused",
        file="include/firnline/properties/in_force.py",
        old="    if not any_key:",
        new="    if not any_key and table is None:",
        breaks="Who names another key is not told that it counts for nothing.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="what the log says of the table goes with its log file",
        file="include/firnline/commit/transaction.py",
        old="        properties=records,",
        new="        properties=records[:0] if base.seq else records,",
        breaks="After a clean-up the settings of whoever comes decide what is deleted.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="a downgrade forgets what the table said",
        file="include/firnline/operations/downgrade/run.py",
        old="        if base.properties is not None and metas:",
        new="        if base.properties is not None and not metas:",
        breaks="A table that firnline comes back to has other times to live than before.",
        caught_by=_TESTS,
    ),
    Mutation(
        name="a downgrade deletes the birth record before it creates it anew",
        file="include/firnline/operations/downgrade/run.py",
        old="        overwrite(table.store, key, birth.encode(record))",
        new="        self._delete([key])\n"
        "        overwrite(table.store, key, birth.encode(record))",
        breaks="A DELETE that lands late takes the properties of the table away.",
        caught_by=("tests/unit/operations/downgrade/test_run.py",),
        unit=True,
    ),
    Mutation(
        name="a downgrade deletes its own transaction",
        file="include/firnline/operations/downgrade/run.py",
        old="[meta.key for meta in metas if meta.key != paths.txn(last)]",
        new="[meta.key for meta in metas]",
        breaks="Of two processes that slept the second is told that it has happened.",
        caught_by=("tests/unit/operations/downgrade/test_sleepers.py",),
    ),
    Mutation(
        name="numbers begin again after a downgrade",
        file="include/firnline/operations/downgrade/run.py",
        old="properties=properties, seq=last)",
        new="properties=properties)",
        breaks="A process that slept through it takes a number that was used: rows are there "
        "twice.",
        caught_by=("tests/unit/operations/downgrade/test_sleepers.py",),
        unit=True,
    ),
    Mutation(
        name="what was committed before a downgrade has not happened",
        file="include/firnline/commit/happened.py",
        old="    return own is not None and born is not None and",
        new="    return True or",
        breaks="A transaction that took effect, and whose run slept, is reported as not committed.",
        caught_by=("tests/unit/operations/downgrade/test_sleepers.py",),
        unit=True,
    ),
    Mutation(
        name="a downgrade that slept deletes all the same",
        file="include/firnline/operations/downgrade/run.py",
        old='            time.refuse("before it could delete what is left over")\n',
        new="",
        breaks="Transactions of a table that firnline came back to are deleted.",
        caught_by=("tests/unit/operations/downgrade/test_run.py",),
        unit=True,
    ),
)
