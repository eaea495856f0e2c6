"""Evidence is the same in whatever groups its pieces are added up."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest

from firnline.operations.prepared.evidence import (
    PARTITIONS,
    Evidence,
    Kind,
    PartitionDifference,
    Sample,
    added,
    sample_text,
)


def piece(name: str, columns: dict[str, int], *kinds: Kind) -> Evidence:
    each = PartitionDifference(
        partition=name, rows_before=3, rows_after=2, removed=1, added=0, changed=1
    )
    return Evidence(
        partitions=(each,),
        partition_count=1,
        rows_before=3,
        rows_after=2,
        removed=1,
        changed=1,
        columns=columns,
        samples=tuple(Sample(partition=name, kind=kind) for kind in kinds),
    )


PIECES = (
    piece("a", {"x": 1}, "removed", "removed", "changed"),
    piece("b", {}, "added"),
    piece("c", {"y": 2, "x": 5}, "removed", "added", "changed", "changed"),
    piece("d", {"y": 1}, "removed"),
)


def together(pieces: tuple[Evidence, ...], samples: int = 2) -> Evidence:
    return reduce(lambda found, more: added(found, more, samples), pieces, Evidence(keys=("k",)))


def test_counts_are_added_up_and_the_first_rows_of_each_kind_are_shown() -> None:
    found = together(PIECES)
    assert (found.keys, found.partition_count, found.rows_before, found.rows_after) == (
        ("k",),
        4,
        12,
        8,
    )
    assert (found.removed, found.added, found.changed) == (4, 0, 4)
    assert found.columns == {"x": 6, "y": 3}
    assert [(s.partition, s.kind) for s in found.samples] == [
        ("a", "removed"),
        ("a", "removed"),
        ("a", "changed"),
        ("b", "added"),
        ("c", "added"),
        ("c", "changed"),
    ]


@pytest.mark.parametrize("samples", [0, 1, 3])
def test_groups_make_no_difference(samples: int) -> None:
    expected = together(PIECES, samples)
    for first, second in itertools.combinations(range(len(PIECES) + 1), 2):
        groups = (PIECES[:first], PIECES[first:second], PIECES[second:])
        found = together(tuple(together(group, samples) for group in groups), samples)
        assert found == expected


def test_a_thousand_partitions_are_named_and_all_are_counted() -> None:
    many = together(tuple(piece(str(n), {}) for n in range(PARTITIONS + 5)))
    assert (len(many.partitions), many.partition_count) == (PARTITIONS, PARTITIONS + 5)


def test_a_sample_shows_both_sides_of_what_changes_and_a_key_once() -> None:
    both = {"before": {"n": "1", "s": None, "t": "x"}, "after": {"n": "1", "s": "null", "t": "y"}}
    assert sample_text(both) == "n=1, s=null → null, t=x → y"
    assert sample_text({"kind": "removed", "before": {"n": "1", "s": None}}) == "n=1, s=null"
