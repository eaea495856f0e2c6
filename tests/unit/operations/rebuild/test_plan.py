"""The rules of a rebuild, one by one, on nothing but facts."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from firnline.ids import format_uuid7
from firnline.log.records import Marker
from firnline.operations.rebuild.judge import Choice, History
from firnline.operations.rebuild.plan import RebuildPlan, plan_rebuild
from firnline.parquet.footers import FooterFacts
from firnline.parquet.part import PartMetadata
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.store.base import ObjectMeta

SETTINGS = TableSettings.model_validate({"name": "t", "root": "memory://b/t"})
PATHS = TablePaths("t")
HOUR = 3_600_000
ALL = Choice(include=("*",))
NOW = 1_000 * HOUR


def key(name: str) -> str:
    return f"t/_data/p/{name}.parquet"


def named(name: str, tmb: int | None = None) -> Marker:
    return Marker(p=key(name), b=1, t=5, tmb=tmb, n=1)


def footer(name: str, **part: Any) -> FooterFacts:
    about = PartMetadata(**{"table": "t", "partition": "p", "writer": "merge", **part})
    return FooterFacts(key=key(name), bytes=1, rows=1, part=about)


def history(*markers: Marker, first: int | None = 1, newest: int = 9, purged: int = 0) -> History:
    """Transactions ``first`` to ``newest``; the first was at 100 h, the newest is now."""
    parts = {m.p: m for m in markers}
    return History(
        parts, newest, NOW if newest else 0, NOW if newest else 0, first, 100 * HOUR, purged
    )


def plan(
    known: History, *footers: FooterFacts, gone: tuple[str, ...] = (), choice: Choice | None = None
) -> RebuildPlan:
    keys = {*known.parts, *(f.key for f in footers)} - {key(name) for name in gone}
    objects = {k: ObjectMeta(k, 1, NOW - HOUR) for k in keys}
    return plan_rebuild(known, objects, footers, PATHS, SETTINGS, choice or Choice())


def piles(found: RebuildPlan) -> dict[str, set[str]]:
    """live, ask, out -> names of the unnamed objects."""
    sets = {"live": found.found, "ask": found.undecided, "out": found.left_out}
    return {
        pile: {j.key[len("t/_data/p/") : -len(".parquet")] for j in judged}
        for pile, judged in sets.items()
        if judged
    }


def merged(name: str, *inputs: str, q: int = 0) -> FooterFacts:
    return footer(name, q=q, replaces=tuple(f"{i}.parquet" for i in inputs))


def test_what_the_history_names_needs_no_footer() -> None:
    found = plan(history(named("a"), named("b", tmb=7)))
    assert [m.p for m in found.live] == [key("a")]
    assert [(m.p, m.tmb) for m in found.dead] == [(key("b"), 7)]


def test_with_a_whole_history_an_unnamed_merge_was_never_committed() -> None:
    assert piles(plan(history(), merged("m", "a", q=0))) == {"out": {"m"}}


@pytest.mark.parametrize(("q", "pile"), [(3, "ask"), (4, "out"), (8, "out")])
def test_behind_a_gap_only_the_sequence_tells_an_old_merge_from_a_left_over(
    q: int, pile: str
) -> None:
    # Transactions 5 to 9 are here. One that began from 4 would have been 5 or later.
    assert piles(plan(history(first=5), merged("m", "gone", q=q))) == {pile: {"m"}}


def test_an_included_part_of_a_replace_is_not_hidden_by_its_own_record() -> None:
    # Its sequence was not known when it was written: the base is below that of the record.
    new = footer("r", writer="replace", q=2, d=("id-3",))
    found = plan(history(first=5), new, choice=Choice(include=("r.parquet",)))
    assert [(m.q, m.d) for m in found.live] == [(2, ("id-3",))]
    assert piles(plan(history(), new)) == {"out": {"r"}}, "never committed"


def test_an_unnamed_merge_whose_input_is_alive_was_never_committed() -> None:
    found = plan(history(named("a"), first=5), merged("m", "a", "b", q=1))
    assert piles(found) == {"out": {"m"}}
    assert [m.p for m in found.live] == [key("a")]


def test_one_whose_input_was_replaced_by_a_later_transaction_neither() -> None:
    late, early = named("a", tmb=101 * HOUR), named("b", tmb=99 * HOUR)
    assert piles(plan(history(late, first=5), merged("m", "a", q=1))) == {"out": {"m"}}
    assert piles(plan(history(early, first=5), merged("m", "b", q=1))) == {"ask": {"m"}}
    first = named("a", tmb=100 * HOUR)
    assert piles(plan(history(first, first=5), merged("m", "a", q=1))) == {"out": {"m"}}


def test_one_whose_inputs_are_live_and_gone_is_asked_about() -> None:
    found = plan(history(named("a")), merged("m", "a"), gone=("a",))
    assert piles(found) == {"ask": {"m"}}
    assert found.missing == (key("a"),)


@pytest.mark.parametrize(("age_h", "pile"), [(12, "live"), (14, "ask")])
def test_an_append_that_the_newest_transaction_would_name_is_asked_about(
    age_h: int, pile: str
) -> None:
    began = NOW - age_h * HOUR  # append.ttl 6 h, commit_ttl 6 h, slack 1 h
    one = footer("a", writer="w", append="id", o=(began, began), q=2)
    assert piles(plan(history(), one)) == {pile: {"a"}}
    assert piles(plan(history(newest=0, first=None), one)) == {"live": {"a"}}


def test_the_user_decides_what_is_undecided_and_nothing_that_is_certain() -> None:
    every = Choice(include=("*",))
    footers = (merged("m", "a", q=0), merged("n", "b", q=8))
    known = history(first=5)
    assert piles(plan(known, *footers, choice=every)) == {"live": {"m"}, "out": {"n"}}
    none = Choice(exclude=("m.parquet",))
    assert piles(plan(known, *footers, choice=none)) == {"out": {"m", "n"}}


def test_an_included_merge_stands_for_its_inputs() -> None:
    a = footer("a", writer="w", append="id", o=(NOW, NOW))
    known = history(first=None, newest=0)
    assert piles(plan(known, merged("m", "a"), a)) == {"live": {"a"}, "ask": {"m"}}
    included = plan(known, merged("m", "a"), a, choice=Choice(include=("m*",)))
    assert piles(included) == {"live": {"m"}, "out": {"a"}}


ALONE = History({}, 0, 0, 0, None, 0, 0)
"""Nothing but parts is left."""


def rowed(facts: FooterFacts, rows: int) -> FooterFacts:
    return replace(facts, rows=rows)


def appended(name: str, rows: int) -> FooterFacts:
    return rowed(footer(name, writer="w", append=name, o=(NOW, NOW)), rows)


def test_some_of_the_outputs_of_a_run_do_not_stand_for_what_it_was_made_from() -> None:
    inputs = (appended("a", 6), appended("b", 4))
    outputs = (rowed(merged("m", "a", "b"), 7), rowed(merged("n", "a", "b"), 3))
    both = Choice(include=("[mn].parquet",))
    assert piles(plan(ALONE, *inputs, *outputs, choice=both)) == {
        "live": {"m", "n"}, "out": {"a", "b"},
    }  # fmt: skip
    one = Choice(include=("m.parquet",), exclude=("n.parquet",))
    found = plan(ALONE, *inputs, *outputs, choice=one)
    assert piles(found) == {"live": {"m"}, "ask": {"a", "b"}, "out": {"n"}}
    assert "has 7 rows of the 10 rows that went in" in found.undecided[0].reason
    # Nor where the other one has no object any more.
    assert piles(plan(ALONE, *inputs, outputs[0], choice=one))["ask"] == {"a", "b"}
    every = Choice(include=("m.parquet",), exclude=("[nab].parquet",))
    assert piles(plan(ALONE, *inputs, *outputs, choice=every)) == {
        "live": {"m"}, "out": {"n", "a", "b"},
    }  # fmt: skip


def test_an_output_is_compared_only_if_all_that_went_in_is_here() -> None:
    found = plan(ALONE, appended("a", 6), rowed(merged("m", "a", "gone"), 6), choice=ALL)
    assert piles(found) == {"live": {"m"}, "ask": {"a"}}
    assert "is here to compare" in found.undecided[0].reason


def test_outputs_of_two_runs_are_more_than_went_in() -> None:
    outputs = (rowed(merged("m", "a"), 6), rowed(merged("n", "a"), 6))
    found = plan(ALONE, appended("a", 6), *outputs, choice=ALL)
    assert piles(found) == {"live": {"m", "n"}, "ask": {"a"}}
    assert "outputs of two runs" in found.undecided[0].reason


def test_runs_that_share_no_input_are_judged_apart() -> None:
    inputs = (appended("a", 6), appended("b", 4))
    outputs = (rowed(merged("m", "a"), 6), rowed(merged("n", "b"), 3))
    assert piles(plan(ALONE, *inputs, *outputs, choice=ALL)) == {
        "live": {"m", "n"}, "out": {"a"}, "ask": {"b"},
    }  # fmt: skip


def test_what_is_live_by_the_log_is_replaced_by_an_included_output_where_history_is_lost() -> None:
    known = dataclasses.replace(history(named("a")), lost="it is gone", named=10)
    output = merged("m", "a", q=9)
    assert piles(plan(known, output)) == {"ask": {"m"}}
    found = plan(known, output, choice=ALL)
    assert (found.buried, [m.p for m in found.live]) == ((key("a"),), [key("m")])
    fewer = plan(known, rowed(output, 0), choice=ALL)
    assert (fewer.buried, piles(fewer)) == ((), {"live": {"m"}, "ask": {"a"}})


def test_the_age_of_a_part_that_is_named_in_the_future_is_that_of_its_object() -> None:
    """A clock that was ahead has named it; its object is older than the newest transaction."""
    future = format_uuid7(NOW + 90 * HOUR, 1)
    foreign = replace(footer(future), part=None)
    objects = {foreign.key: ObjectMeta(foreign.key, 1, NOW - 14 * HOUR)}
    known = dataclasses.replace(history(), now_ms=NOW)
    found = plan_rebuild(known, objects, [foreign], PATHS, SETTINGS, Choice())
    assert piles(found) == {"ask": {future}}
    asked = plan_rebuild(known, objects, [foreign], PATHS, SETTINGS, ALL)
    assert [m.t for m in asked.live] == [NOW - 14 * HOUR]


def test_a_part_of_another_table_counts_as_a_foreign_one() -> None:
    found = plan(history(), footer("x", table="other", writer="w", append="id", q=3, o=(NOW, NOW)))
    assert piles(found) == {"live": {"x"}}
    (marker,) = found.live
    assert (marker.q, marker.o) == (None, None)


def test_a_merged_part_of_another_name_is_asked_about_when_nothing_it_was_made_from_is_here() -> (
    None
):
    """It was imported; or the table was renamed, and it may be what a dead run has left."""
    one = footer("x", table="other", q=3, replaces=("a.parquet",))
    assert piles(plan(history(), one)) == {"ask": {"x"}}
    (marker,) = plan(history(), one, choice=Choice(include=("x*",))).live
    assert (marker.q, marker.o) == (None, None)


@pytest.mark.parametrize("tmb", [None, 101 * HOUR])
def test_one_that_was_made_from_parts_of_this_table_is_its_own_whatever_the_name(
    tmb: int | None,
) -> None:
    found = plan(history(named("a", tmb)), footer("m", table="old", q=0, replaces=("a.parquet",)))
    assert piles(found) == {"out": {"m"}}
    assert [m.p for m in found.live] == ([] if tmb else [key("a")])


def test_whoever_names_inputs_that_are_here_tells_a_former_name() -> None:
    """Of all parts of that name sequence and order count."""
    late = footer("b", table="old", writer="w", append="id", q=3, o=(NOW, NOW), d=("i",))
    merge = footer("m", table="old", q=5, replaces=("b.parquet",))
    alone = plan(history(newest=0, first=None), late)
    assert [(m.q, m.o) for m in alone.live] == [(None, None)]
    found = plan(history(newest=0, first=None), late, merge)
    assert piles(found) == {"live": {"b"}, "ask": {"m"}}
    assert [(m.q, m.o, m.d) for m in found.live] == [(3, (NOW, NOW), ("i",))]
    included = plan(history(newest=0, first=None), late, merge, choice=Choice(include=("m*",)))
    assert piles(included) == {"live": {"m"}, "out": {"b"}}


def test_a_table_in_a_folder_of_ours_tells_no_former_name() -> None:
    """Its parts lie beside what they were made from, and are not ours."""

    def inner(name: str, **part: Any) -> FooterFacts:
        where = f"t/_data/p/in/_data/{name}.parquet"
        return replace(footer(name, table="t/_data/p/in", **part), key=where)

    a = inner("a", writer="w", append="id", q=3, o=(NOW, NOW))
    m = inner("m", replaces=("a.parquet",), q=0)
    ours = footer("x", table="t/_data/p/in", writer="w", append="id", q=3, o=(NOW, NOW))
    found = plan(history(newest=0, first=None), a, m, ours)
    assert {j.key for j in found.undecided} == {a.key, m.key}
    assert [(marker.p, marker.q) for marker in found.live] == [(key("x"), None)]


def test_nor_is_one_under_a_former_name_of_ours_believed_there() -> None:
    """It may have been copied from us, and what it says is of the table that it lies in now."""
    a = footer("a", table="old", writer="w", append="id", o=(NOW, NOW))
    m = footer("m", table="old", replaces=("a.parquet",))
    where = "t/_data/p/in/_data/x.parquet"
    there = replace(footer("x", table="old", replaces=("y.parquet",), q=3, d=("i",)), key=where)
    known = history(newest=9, first=1)
    assert where in {j.key for j in plan(known, a, m, there).undecided}
    included = plan(known, a, m, there, choice=Choice(include=("x.parquet",)))
    assert [(k.q, k.d) for k in included.live if k.p == where] == [(None, None)]


@pytest.mark.parametrize(("who", "part"), [("an append", {}), ("another client", {"table": "o"})])
def test_it_says_who_has_written_what_is_found(who: str, part: dict[str, str]) -> None:
    one = footer("a", writer="w", append="id", o=(NOW, NOW), **part)
    (found,) = plan(history(), one).found
    assert f"was written by {who}" in found.reason


def test_all_parts_of_an_append_have_one_time() -> None:
    names = ["00000000-0001-7000-8000-000000000001", "00000000-0009-7000-8000-000000000002"]
    parts = [
        replace(footer(name, writer="w", append="id", o=(NOW, NOW)), bytes=size)
        for size, name in enumerate(names)
    ]
    assert {m.t for m in plan(history(), *parts).live} == {9}


def test_included_merges_have_times_of_their_own() -> None:
    names = ["00000000-0001-7000-8000-000000000001", "00000000-0009-7000-8000-000000000002"]
    found = plan(history(first=5), *map(merged, names), choice=Choice(include=("*",)))
    assert [m.t for m in found.live] == [1, 9]


def test_a_part_that_does_not_say_when_its_rows_were_inserted_came_when_it_was_written() -> None:
    name = "00000000-0009-7000-8000-000000000002"
    (found,) = plan(history(newest=0), footer(name, writer="w", append="id")).live
    assert found.order() == (9, 9)


def test_a_live_part_whose_object_is_gone_is_missing_and_not_live() -> None:
    found = plan(history(named("a"), named("b")), gone=("a",))
    assert (found.missing, [m.p for m in found.live], found.named) == ((key("a"),), [key("b")], 1)


def test_an_object_that_was_named_before_the_append_began_is_no_copy_of_its_part() -> None:
    """A copy has a later name than what it was made of, and that one than its append."""
    alike = "00000000-0005-7000-8000-000000000001"
    for began, pile in ((5, "ask"), (6, "live")):
        about = footer("b", writer="w", append="id", o=(began, began), q=0)
        old = replace(named(alike, tmb=7), q=0)
        assert piles(plan(history(old, newest=0), about)) == {pile: {"b"}}


def test_a_dead_part_is_forgotten_only_when_it_is_gone_and_confirmed_deleted() -> None:
    dead = named("a", tmb=7)
    assert plan(history(dead, purged=7), gone=("a",)).dead == ()
    assert plan(history(dead, purged=6), gone=("a",)).dead == (dead,)
    assert plan(history(dead, purged=7)).dead == (dead,)


def test_a_gap_moves_the_horizon_but_never_over_a_part_that_exists() -> None:
    assert plan(history(purged=3)).purged == 3
    assert plan(history(purged=3, first=5)).purged == 100 * HOUR - 1
    assert plan(history(named("a", tmb=50), purged=3, first=5)).purged == 49
    assert plan(history(named("a", tmb=50), purged=3, first=5), gone=("a",)).purged > 50
