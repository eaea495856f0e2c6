"""Sizes of sections that are given by name."""

from __future__ import annotations

import pytest

from benchmarks.sizes import FULL, SMALL, changed


def test_a_size_is_changed_and_the_others_stay() -> None:
    found = changed(SMALL, ["cleaned=7", "many_groups=3,4", "clustered=1,2"])
    assert (found.cleaned, found.many_groups, found.clustered) == (7, (3, 4), (1, 2))
    assert found.merge_files == SMALL.merge_files
    assert changed(FULL, []) == FULL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nothing=1", "nothing is none of merge_files, "),
        ("appended=1", "appended is none of"),
        ("cleaned=1,2", "cleaned is one number"),
        ("cleaned=many", "invalid literal"),
    ],
)
def test_what_is_no_size_is_refused(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        changed(FULL, [given])


def test_no_section_is_as_large_in_tests() -> None:
    assert SMALL.merge_files * SMALL.merge_rows < FULL.merge_files * FULL.merge_rows / 100
    assert sum(SMALL.snapshot_files) < sum(FULL.snapshot_files) / 100
    assert SMALL.appended.batches < FULL.appended.batches / 100
