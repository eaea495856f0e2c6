"""The chain of a table's erases: numbers without gaps, each over the digests of all before."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from firnline.log.erases import (
    EraseLink,
    PlannedErase,
    erase_record,
    link_after,
    newest,
    without_erases,
)
from firnline.log.sinks import sink_record
from firnline.log.superseded import without_superseded

OTHER = b'{"later":{"kind":1}}'
LATER = b'{"erase":{"number":7,"of":"a later version"}}'
PLANS = st.lists(st.text("0123456789abcdef", min_size=1), min_size=1, max_size=6)


def chained(plans: list[str]) -> list[EraseLink]:
    found: list[EraseLink] = []
    for seq, plan in enumerate(plans, 1):
        link = link_after(PlannedErase(f"e{seq}", plan), map(erase_record, found), seq, 10 * seq)
        assert link is not None
        found.append(link)
    return found


@given(PLANS)
def test_each_erase_holds_the_digest_of_the_one_before(plans: list[str]) -> None:
    links = chained(plans)
    assert [link.number for link in links] == list(range(1, len(plans) + 1))
    assert links[0].before == ""
    assert all(later.before == link.digest for link, later in pairwise(links))


@given(PLANS, PLANS)
def test_a_changed_erase_changes_the_digests_of_all_that_follow(
    plans: list[str], others: list[str]
) -> None:
    same = plans == others[: len(plans)]
    one, other = chained(plans)[-1], chained(others[: len(plans)])[-1]
    assert (one.digest == other.digest) == same


@given(PLANS)
def test_a_fold_keeps_the_newest_erase_and_records_of_other_kinds(plans: list[str]) -> None:
    links = chained(plans)
    lines = [OTHER, LATER, sink_record("q", 1), *map(erase_record, links)]
    assert newest(lines) == links[-1]
    kept = [OTHER, LATER, sink_record("q", 1), erase_record(links[-1])]
    assert sorted(without_superseded(lines)) == sorted(kept)
    assert without_erases(lines) == [OTHER, LATER, sink_record("q", 1)]


def test_an_erase_that_the_log_does_not_name_comes_after_the_one_that_is_known() -> None:
    (known,) = chained(["a"])
    link = link_after(PlannedErase("e9", "b", known), [], 9, 90)
    assert link is not None
    assert (link.number, link.before) == (2, known.digest)


def test_a_transaction_that_is_no_erase_has_no_place() -> None:
    assert link_after(None, map(erase_record, chained(["a"])), 9, 90) is None
