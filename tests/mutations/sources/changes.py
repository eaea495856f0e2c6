"""Mistakes in the feed of changes."""

from __future__ import annotations

from tests.mutations.model import Mutation

_FEED_TEST = ("tests/unit/read/test_feed.py",)

CHANGES = (
    Mutation(
        name="every merge is silent",
        file="include/firnline/read/steps.py",
        old='(self.mark.op != "merge" or self.mark.query is False)',
        new="self.mark.op != ''",
        breaks="A consumer of changes never gets what `merge.sql` has changed.",
        caught_by=_FEED_TEST,
    ),
    Mutation(
        name="a merge that an append slipped into is silent",
        file="include/firnline/read/steps.py",
        old="low <= at[1] and at[0] <= high for",
        new="low > at[1] and at[0] > high for",
        breaks="A consumer of changes keeps another row of a key than readers see.",
        caught_by=_FEED_TEST,
    ),
    Mutation(
        name="changes are compared although another row wins now",
        file="include/firnline/read/steps.py",
        old="            if before != after:\n",
        new="            if False:\n",
        breaks="After another `version` a consumer of changes has other rows than the table.",
        caught_by=_FEED_TEST,
    ),
    Mutation(
        name="changes are read in columns of before",
        file="include/firnline/read/steps.py",
        old='        if op in ("evolve", "schema-fix") and not recorded:',
        new='        if op in ("schema-fix",) and not recorded:',
        breaks="Values of a column that was renamed at once are nulls in the feed.",
        caught_by=_FEED_TEST,
    ),
    Mutation(
        name="0.0 in place of -0.0 is no change",
        file="include/firnline/read/multiset.py",
        old="    return [column, f",
        new="    return [column] or [f",
        breaks="A consumer of changes keeps a value that the table does not have any more, and a "
        "person approves a rewrite that changes it without being told.",
        caught_by=("tests/unit/read/test_multiset.py", "tests/unit/read/test_difference.py"),
    ),
    Mutation(
        name="the sign of a NaN is a change",
        file="include/firnline/read/multiset.py",
        old="'-nan', 'nan'",
        new="'-nan', '-nan'",
        breaks="Consumers of changes get rows whose values are equal, and whose digests are.",
        caught_by=("tests/unit/read/test_multiset.py",),
    ),
    Mutation(
        name="a row that went twice is told once",
        file="include/firnline/read/difference.py",
        old="unnest(range(abs({count})))",
        new="unnest(range(1))",
        breaks="Of duplicates a consumer of changes has more than the table.",
        caught_by=("tests/unit/read/test_difference.py",),
    ),
    Mutation(
        name="an end that is a number forgets what a position names",
        file="include/firnline/read/feed.py",
        old="seen=end.seen | (start.seen - folded)",
        new="seen=end.seen",
        breaks="A consumer of changes gets appends twice after a call with `until`.",
        caught_by=_FEED_TEST,
    ),
)
