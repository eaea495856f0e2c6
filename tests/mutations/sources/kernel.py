"""Mistakes in the merge kernel."""

from __future__ import annotations

from tests.mutations.model import Mutation

KERNEL = (
    Mutation(
        name="the last range of a cluster is not written",
        file="include/firnline/kernel/ranges.py",
        old="""        found: list[Range] = []
        for index in range(count):
            files = sorted(""",
        new="""        found: list[Range] = []
        for index in range(count - 1):
            files = sorted(""",
        breaks="A merge of a clustered table fails, or loses the rows of the largest keys.",
        caught_by=("tests/kernel/test_ranges.py",),
    ),
    Mutation(
        name="a cut point belongs to the range below it",
        file="include/firnline/kernel/ranges.py",
        old="{column} > {value} OR ({column} = {value} AND {rest}))",
        new="{column} >= {value} OR ({column} = {value} AND {rest}))",
        breaks="A value that fills several ranges is not cut by the next column any more.",
        caught_by=("tests/kernel/test_ranges.py",),
        unit=None,
    ),
    Mutation(
        name="nulls are sorted first",
        file="include/firnline/kernel/sql.py",
        old="""{'DESC' if key.descending else 'ASC'} NULLS LAST\"""",
        new="""{'DESC' if key.descending else 'ASC'} NULLS FIRST\"""",
        breaks="Parts are not in the order that the format promises.",
        caught_by=("tests/kernel/test_merge.py",),
        unit=None,
    ),
    Mutation(
        name="the version of a row is ignored",
        file="include/firnline/kernel/visibility.py",
        old="by = [*([version] if version else []), *place]",
        new="by = [*place]",
        breaks="Of rows with one primary key an older version wins when it came later.",
        caught_by=("tests/kernel/test_merge.py",),
    ),
    Mutation(
        name="a row without a version beats those with one",
        file="include/firnline/kernel/visibility.py",
        old='{quote_name(name)} DESC NULLS LAST" for name in by)',
        new='{quote_name(name)} DESC NULLS FIRST" for name in by)',
        breaks="A null in the version column hides every other row of the key.",
        caught_by=("tests/kernel/test_properties.py", "tests/kernel/test_merge.py"),
    ),
    Mutation(
        name="a delete takes the rows for which its condition is null",
        file="include/firnline/kernel/visibility.py",
        old='return f"({condition}) IS NOT TRUE"',
        new='return f"({condition}) IS FALSE"',
        breaks="Rows with a null in a column of the condition are lost in the next merge.",
        caught_by=("tests/kernel/test_merge.py",),
    ),
    Mutation(
        name="the values of a renamed column are not looked for",
        file="include/firnline/kernel/sql.py",
        old="    if made is not None:\n        return made.sql\n",
        new="",
        breaks="After a rename or a change of type a merge writes nulls.",
        caught_by=("tests/kernel/test_sources.py",),
    ),
    Mutation(
        name="bloom filters ignore the wished rate of false positives",
        file="include/firnline/kernel/sql.py",
        old="BLOOM_FILTER_FALSE_POSITIVE_RATIO {filters.false_positives}",
        new="BLOOM_FILTER_FALSE_POSITIVE_RATIO 0.01",
        breaks="Readers open parts that a filter was meant to exclude.",
        caught_by=("tests/kernel/test_bloom.py",),
        unit=None,
    ),
    Mutation(
        name="an output replaces inputs that stay",
        file="include/firnline/kernel/outputs.py",
        old="    if all(taken):",
        new="    if any(taken):",
        breaks="A rebuild of the log drops parts that a delete had left alone.",
        caught_by=("tests/kernel/test_touched.py",),
    ),
    Mutation(
        name="an input that cannot be fetched is passed over",
        file="include/firnline/kernel/staging.py",
        old="            future.result()",
        new="            future.exception()",
        breaks="A missing part is no error of its own, and nobody learns its key.",
        caught_by=("tests/kernel/test_hostile.py",),
        unit=None,
    ),
    Mutation(
        name="the process of a query inherits the environment",
        file="include/firnline/kernel/query/process.py",
        old="        env=child_environment(),",
        new="        env=None,",
        breaks="A user's query runs beside the keys of all stores.",
        caught_by=("tests/unit/test_child_process.py",),
    ),
)
