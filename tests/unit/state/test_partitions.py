"""Partitions are chosen by globs alike everywhere, and a glob that matches nothing is an error."""

from __future__ import annotations

import pytest

from firnline.errors import UsageError
from firnline.state.partitions import choose, matches

MONTHS = ["y=2013/m=1", "y=2013/m=2", "y=2014/m=1"]


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        ((), MONTHS),
        (["y=2013*"], MONTHS[:2]),
        (["y=2014/m=1", "*/m=2"], MONTHS[1:]),
        (["*"], MONTHS),
    ],
)
def test_the_order_is_that_of_the_partitions(globs: list[str], expected: list[str]) -> None:
    assert choose(MONTHS, globs) == expected
    assert [name for name in MONTHS if matches(name, globs)] == expected


def test_the_partition_of_an_unpartitioned_table_is_chosen_without_globs() -> None:
    assert choose([""], ()) == [""]
    assert matches("", ["*"])


@pytest.mark.parametrize("globs", [["y=2015*"], ["y=2013*", "Y=2014*"]])
def test_one_glob_that_matches_nothing_refuses_all(globs: list[str]) -> None:
    with pytest.raises(UsageError, match=r"no partition of flights matches") as refused:
        choose(MONTHS, globs, of="flights")
    assert refused.value.next_step == (
        "see `firnline parts`; the first partitions are: y=2013/m=1, y=2013/m=2, y=2014/m=1"
    )
    with pytest.raises(UsageError) as refused:
        choose([], globs, next_step="look elsewhere")
    assert refused.value.next_step == "look elsewhere"


@pytest.mark.long
def test_a_long_glob_is_cut_in_the_error() -> None:
    with pytest.raises(UsageError) as refused:
        choose(["y=2013"], ["[" * 5_000])
    assert len(str(refused.value)) < 200
