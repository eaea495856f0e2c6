"""A play tells the truth: it is held against what really happened to a table.

Appends, merges, clean-ups and TTL are the real ones, by a set clock, in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firnline.errors import NoTableError, UsageError
from firnline.flights import cut_hours, flights_file, read_flights
from firnline.operations.inspect.prices import Prices
from firnline.operations.options import WhatIfOptions
from firnline.operations.what_if.run import WhatIf, difference, what_if
from firnline.settings.fleet import FleetSettings
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from firnline.units import DAY_MS
from tests.support.lived import HOUR_MS, NIGHT, Life
from tests.support.world import World, make_world

FLEET = FleetSettings()


def lived(tmp_path: Path, days: float, **settings: Any) -> Life:
    """A table that has lived some days, from a midnight on."""
    cleanup = {"schedule": f"2 {NIGHT} * * *", **settings.pop("cleanup", {})}
    given = {"partition_by": ["day(ts)"], "sort_by": ["id"], "cleanup": cleanup, **settings}
    world = make_world(**given)
    world.clock.now = world.clock.now // DAY_MS * DAY_MS + 1
    life = Life(world, tmp_path)
    life.days(days)
    return life


def asked(world: World, **options: Any) -> WhatIf:
    given = WhatIfOptions(**{"every": HOUR_MS, **options})
    return what_if(world.table, FLEET, given, Prices())


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Life, dict[str, int], WhatIf]:
    """A table whose log still has all parts, what its maintenance sent, and its play."""
    life = lived(tmp_path_factory.mktemp("known"), 2.5, cleanup={"grace": "30d"})
    sent = life.requests()
    return life, sent, asked(life.world)


@pytest.mark.long
def test_the_play_of_exact_arrivals_does_what_really_happened(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    _, _, answer = known
    was, played = answer.was.outcome, answer.as_it_is.outcome
    assert answer.arrived.reconstructed == 0
    assert (played.parts, played.runs) == (was.parts, was.runs)
    assert (played.parts_in, played.parts_out) == (was.parts_in, was.parts_out)
    assert played.means is not None
    assert was.means is not None
    assert played.means.parts == pytest.approx(was.means.parts, rel=0.001)
    assert played.means.yesterday == pytest.approx(was.means.yesterday, rel=0.001)
    assert was.runs > 20


@pytest.mark.long
def test_bytes_are_those_of_the_table_within_what_sorting_again_saves(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    _, _, answer = known
    was, played = answer.was.outcome, answer.as_it_is.outcome
    assert played.bytes == pytest.approx(was.bytes, rel=0.01)
    # Parts of 1 KB shrink again at each merge, and the play lets them shrink once.
    assert played.read == pytest.approx(was.read, rel=0.15)
    assert played.written == pytest.approx(was.written, rel=0.25)


@pytest.mark.long
def test_requests_are_those_that_the_store_has_counted(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    _, sent, answer = known
    for figures in (answer.was, answer.as_it_is):
        requests = figures.outcome.requests.to_json()
        assert requests["put"] == sent["put"]
        assert requests["delete"] == sent["delete"]
        assert requests["get"] == pytest.approx(sent["get"], rel=0.08)
        assert requests["list"] == pytest.approx(sent["list"], rel=0.05)


@pytest.mark.long
def test_arrivals_that_a_clean_up_has_forgotten_are_reconstructed(tmp_path: Path) -> None:
    life = lived(tmp_path, 3.5, cleanup={"grace": "6h"})
    sent, store = life.requests(), life.world.store
    before = store.counters.as_dict()
    answer = asked(life.world)
    came, was, played = answer.arrived, answer.was.outcome, answer.as_it_is.outcome
    snapshot = read_snapshot(store, life.world.table.paths)
    assert came.start < came.since == snapshot.purged
    assert 0.5 * life.parts < came.reconstructed < life.parts
    assert len(came.arrivals) == pytest.approx(life.parts, rel=0.05)
    assert came.bytes == pytest.approx(life.bytes, rel=0.1)
    assert played.parts == pytest.approx(was.parts, abs=2)
    assert played.bytes == pytest.approx(was.bytes, rel=0.1)
    assert played.parts_in == pytest.approx(was.parts_in, rel=0.1)
    requests = played.requests.to_json()
    for kind in ("get", "put", "list", "delete"):
        assert requests[kind] == pytest.approx(sent[kind], rel=0.25)
    # Read only: the log files, and a GET for each transaction.
    after = answer.requests
    assert (after["put"], after["delete"]) == (before["put"], before["delete"])
    assert after["list"] - before["list"] == 3
    headers = len(history(life.world.table, 1_000))
    assert after["get"] - before["get"] == headers + len(snapshot.contents)


@pytest.mark.long
def test_a_play_begins_where_the_history_begins(tmp_path: Path) -> None:
    life = lived(tmp_path, 4.5, cleanup={"grace": "2d"})
    world, kept = life.world, 40
    newest = history(world.table, 1_000)
    for header in newest[kept:-5]:  # as a clean-up does, which leaves those that a log file names
        del world.store.objects[world.table.paths.txn(header.seq)]
    answer = asked(world)
    was, played = answer.was.outcome, answer.as_it_is.outcome
    assert answer.arrived.start == newest[kept - 1].t - 1
    assert was.runs == sum(header.op == "merge" for header in newest[:kept])
    assert played.runs == pytest.approx(was.runs, abs=2)
    assert played.read == pytest.approx(was.read, rel=0.25)


@pytest.mark.long
def test_a_variant_is_played_beside_what_is_in_force(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    life, _, as_it_is = known
    assert as_it_is.what_if is None
    answer = asked(life.world, set={"merge.min_inputs": "2"})
    assert answer.as_it_is == as_it_is.as_it_is
    assert answer.what_if is not None
    more, less = answer.what_if.outcome, answer.as_it_is.outcome
    assert more.runs > less.runs
    assert more.written > less.written
    assert more.means is not None
    assert less.means is not None
    assert more.means.parts < less.means.parts
    assert answer.to_json()["settings"] == {"merge.min_inputs": "2"}


@pytest.mark.long
def test_a_schedule_of_the_variant_is_not_overridden_by_the_interval_of_merges(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    life, _, _ = known
    answer = asked(life.world, set={"merge.schedule": "0 */6 * * *"})
    assert answer.calendar.source == "every 1h"
    assert answer.other_calendar is not None
    assert answer.other_calendar.source == "by merge.schedule, 0 */6 * * *"
    assert len(answer.other_calendar.looks) == pytest.approx(len(answer.calendar.looks) / 6, abs=1)


@pytest.mark.long
def test_a_suggestion_keeps_to_the_limit_and_nothing_that_was_tried_is_cheaper(
    known: tuple[Life, dict[str, int], WhatIf],
) -> None:
    life, _, _ = known
    told: list[tuple[int, int]] = []
    options = WhatIfOptions(every=HOUR_MS, suggest=True, most_requests=9)
    answer = what_if(
        life.world.table, FLEET, options, Prices(), lambda done, total: told.append((done, total))
    )
    found = answer.suggestion
    assert found is not None
    assert found.tried + found.pruned == 24
    assert found.best is not None
    assert found.best.costs.requests_of_scan is not None
    assert found.best.costs.requests_of_scan <= 9
    prices = [each.costs.total for each in (found.best, *found.following)]
    assert prices == sorted(prices, key=lambda price: price or 0)
    assert told[0][0] <= told[-1][0] <= told[-1][1] == 25 * len(answer.arrived.arrivals)


def test_a_ttl_of_the_variant_drops_what_it_drops_in_the_play(tmp_path: Path) -> None:
    life = lived(tmp_path, 1.5, cleanup={"grace": "30d"})
    changes = {"ttl.keep": "1h", "ttl.schedule": "30 2 * * *", "ttl.max_removed_fraction": 1}
    answer = asked(life.world, set=changes)
    assert answer.what_if is not None
    played = answer.what_if.outcome
    assert 0 < played.dropped < played.arrived
    assert answer.as_it_is.outcome.dropped == 0
    assert played.bytes == played.arrived - played.dropped - played.shrunk


def test_a_table_that_says_nothing_of_its_past_is_told_so() -> None:
    world = make_world()
    with pytest.raises(NoTableError):
        asked(world)


def test_a_table_without_a_schedule_has_to_say_when_merges_run(tmp_path: Path) -> None:
    life = lived(tmp_path, 0.1, merge={"schedule": None})
    with pytest.raises(UsageError, match="nothing says when merges of t run") as refused:
        asked(life.world, every=None)
    assert refused.value.next_step == "say it with --every, such as --every 1h"


def test_a_difference_is_a_share_of_what_was() -> None:
    def figures(value: float | None) -> dict[str, Any]:
        names = difference.__globals__["_COMPARED"]
        return {**dict.fromkeys(names, value), "requests": {"get": value}}

    assert difference(figures(4), figures(5))["parts"] == 0.25
    assert difference(figures(4), figures(3))["requests_get"] == -0.25
    assert difference(figures(0), figures(0))["bytes"] == 0.0
    assert difference(figures(0), figures(1))["bytes"] is None
    assert difference(figures(None), figures(1))["merges"] is None


@pytest.mark.full("two weeks of real flights with hourly merges: three minutes")
def test_flights_by_the_hour_are_played_as_they_were_merged(tmp_path: Path) -> None:
    # docs/operations.md states what this measures.
    hours = cut_hours(read_flights(flights_file()))
    began = hours[0]["time_hour"][0].value // 1_000
    world = make_world(
        partition_by=["day(sched_dep)"], sort_by=["carrier", "sched_dep"], cleanup={"grace": "2d"}
    )
    life = Life(world, tmp_path)
    world.clock.now = began
    for hour in hours:
        at = hour["time_hour"][0].value // 1_000 - began
        if at >= 14 * DAY_MS:
            break
        life.until(began + at + HOUR_MS // 3)  # between two merges
        life.append(hour)
    answer = asked(world, days=40)
    print(
        {name: f"{share:+.1%}" for name, share in answer.to_json()["difference"].items() if share}
    )
    was, played = answer.was.outcome, answer.as_it_is.outcome
    assert played.parts == pytest.approx(was.parts, rel=0.1)
    assert played.bytes == pytest.approx(was.bytes, rel=0.1)
    assert played.read == pytest.approx(was.read, rel=0.2)
