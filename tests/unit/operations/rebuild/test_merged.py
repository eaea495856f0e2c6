"""Of what may be a merge by another client of live parts somebody has to decide."""

from __future__ import annotations

import pytest

from firnline.log.records import Marker
from firnline.operations.rebuild.merged import ask_about_merges
from firnline.operations.rebuild.names import Names
from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths
from firnline.store.base import ObjectMeta

PATHS = TablePaths("t")
NEW = "t/_data/d=1/new.parquet"


def verdict_on(
    facts: FooterFacts, *, others: dict[str, int], verdict: str = "live", included: bool = False
) -> str:
    objects = {key: ObjectMeta(key, 1, at) for key, at in {**others, NEW: 100}.items()}
    found = ask_about_merges(
        [(facts, verdict, "as it is")],
        [Marker(key, 1, at) for key, at in others.items()],
        objects,
        PATHS,
        Names(PATHS),
        [NEW] if included else [],
    )
    return found[0][1]


def part(rows: int) -> PartMetadata:
    return PartMetadata(table="t", partition="d=1", writer="w", append="a", rows=rows)


THEIRS = FooterFacts(key=NEW, bytes=1, rows=2)
OLDER = {"t/_data/d=1/a.parquet": 1, "t/_data/d=1/b.parquet": 2}


def test_a_part_of_theirs_with_two_older_ones_in_its_partition_is_asked_about() -> None:
    assert verdict_on(THEIRS, others=OLDER) == "ask"


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"t/_data/d=1/a.parquet": 1},
        {"t/_data/d=1/a.parquet": 1, "t/_data/d=1/b.parquet": 200},
        {"t/_data/d=1/a.parquet": 1, "t/_data/d=2/b.parquet": 2},
    ],
)
def test_without_two_older_ones_it_is_no_merge(others: dict[str, int]) -> None:
    assert verdict_on(THEIRS, others=others) == "live"


def test_what_a_person_has_included_and_what_is_not_live_stays_as_it_is() -> None:
    assert verdict_on(THEIRS, others=OLDER, included=True) == "live"
    assert verdict_on(THEIRS, others=OLDER, verdict="out") == "out"


def test_a_part_of_ours_is_no_merge_of_theirs() -> None:
    ours = FooterFacts(key=NEW, bytes=1, rows=2, part=part(2))
    assert verdict_on(ours, others=OLDER) == "live"


def test_a_footer_of_ours_that_was_carried_on_proves_nothing() -> None:
    carried = FooterFacts(key=NEW, bytes=1, rows=2, part=part(1))
    assert verdict_on(carried, others=OLDER) == "ask"
