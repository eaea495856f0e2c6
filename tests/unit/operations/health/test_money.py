"""What maintenance has spent, and what it has saved readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.operations.health.detail import HISTORY, detail_of
from firnline.operations.health.money import Money, money
from firnline.operations.health.reading import read
from firnline.operations.inspect.cost import COMMIT, Requests
from firnline.operations.inspect.prices import Prices
from firnline.operations.operation import Work
from firnline.operations.options import RestoreOptions
from firnline.operations.restore.run import run_restore
from firnline.units import DAY_MS
from tests.support.histories import RUN, drop, filled, merge
from tests.support.lived import Life
from tests.support.world import make_world

T = 20_000 * DAY_MS
GRACE = 2 * DAY_MS
READ = Requests(list=2)
"""Two LIST of a reading of a log that is short."""


def header(seq: int, op: str, day: float, *partitions: str, **counts: int) -> TxnHeader:
    return TxnHeader(
        seq=seq,
        txn=f"x{seq}",
        op=op,
        base=seq - 1,
        t=T + round(day * DAY_MS),
        log="",
        run=RunIdentity(dag_id="d", run_id=f"r{seq}"),
        counts=Counts(**counts),
        partitions=partitions or ("day=1",),
    )


def a_merge(seq: int, day: float, *partitions: str, parts_in: int = 11) -> TxnHeader:
    size = {"bytes_in": 900, "bytes_out": 800}
    return header(
        seq, "merge", day, *partitions, parts_in=parts_in, parts_out=1, logs_folded=5, **size
    )


def found(*headers: TxnHeader, undone: frozenset[int] = frozenset(), day: float = 10) -> Money:
    newest_first = sorted(headers, key=lambda each: -each.seq)
    answer = money(newest_first, undone, T + round(day * DAY_MS), GRACE, Prices())
    assert answer is not None
    return answer


def test_a_table_without_transactions_has_spent_and_saved_nothing_that_is_known() -> None:
    assert money([], frozenset(), T, GRACE, Prices()) is None
    assert detail_of(read(filled(2).table, HISTORY))["money"] is None


def test_a_merge_has_read_the_log_twice_and_its_inputs_and_has_written_and_committed() -> None:
    spent = found(a_merge(1, 0))
    logs, inputs = Requests(get=5), Requests(get=11)
    assert spent.requests == (READ + logs) * 2 + inputs + Requests(put=1) + COMMIT
    assert (spent.transactions, spent.bytes_in, spent.bytes_out) == (1, 900, 800)
    puts_and_lists, gets = 5 + 5, 10 + 11 + 1
    assert spent.spent == pytest.approx((0.005 * puts_and_lists + 0.0004 * gets) / 1_000)


def test_a_run_of_two_transactions_has_read_the_log_as_one() -> None:
    first = a_merge(1, 0)
    second = header(2, "merge", 0.1, parts_in=4, parts_out=1)
    again = msgspec.structs.replace(second, run=first.run)
    alone, both = found(first), found(first, again)
    assert both.requests - alone.requests == Requests(get=4, put=1) + COMMIT


def test_a_clean_up_and_a_ttl_have_requests_too_and_what_people_rewrite_has_none() -> None:
    before = found(a_merge(1, 0))
    cleaned = found(a_merge(1, 0), header(2, "cleanup", 3, parts_in=11, bytes_in=900))
    assert (cleaned.requests - before.requests).delete == COMMIT.delete + 1
    assert (cleaned.requests - before.requests).put == COMMIT.put
    expired = found(a_merge(1, 0), header(2, "ttl", 3, parts_in=1))
    assert (expired.requests - before.requests).put == COMMIT.put
    rewritten = found(a_merge(1, 0), header(2, "rewrite", 3, parts_in=9, parts_out=9))
    assert rewritten.requests == before.requests
    assert (rewritten.transactions, cleaned.transactions, expired.transactions) == (1, 2, 2)


def test_only_the_last_30_days_count_with_what_they_found() -> None:
    old, new = a_merge(1, 0), a_merge(2, 20)
    both, late = found(old, new, day=25), found(old, new, day=40)
    assert (both.since, late.since) == (T, T + 10 * DAY_MS)
    assert (both.transactions, late.transactions) == (2, 1)
    assert both.requests.get > late.requests.get >= 11
    assert late.fewer == pytest.approx(10 * 20 / 30)
    none = found(old, new, day=60)
    assert (none.transactions, none.requests, none.fewer, none.even) == (0, Requests(), 0, None)


def test_a_merge_saves_from_its_time_on_and_more_the_earlier_it_was() -> None:
    assert found(a_merge(1, 0)).fewer == 10
    assert found(a_merge(1, 0), a_merge(2, 7.5)).fewer == pytest.approx(10 + 10 / 4)


def test_a_scan_saves_the_price_of_a_get_for_each_part_and_enough_scans_pay() -> None:
    answer = found(a_merge(1, 0))
    assert answer.saved == pytest.approx(1_000 * 10 * 0.0004 / 1_000)
    assert answer.even is not None
    a_scan = answer.saved / 1_000
    assert (answer.even - 1) * a_scan < answer.spent <= answer.even * a_scan


def test_an_undone_merge_has_spent_and_saves_nothing() -> None:
    answer = found(a_merge(1, 0), undone=frozenset({1}))
    assert answer.spent > 0
    assert (answer.fewer, answer.saved, answer.even) == (0, 0, None)


@pytest.mark.parametrize("op", ["ttl", "drop", "replace"])
def test_a_merge_saves_until_its_parts_are_taken_away(op: str) -> None:
    gone = header(3, op, 5, "day=1", parts_in=1)
    assert found(a_merge(1, 0, "day=1", "day=2"), gone).fewer == pytest.approx(10 / 2)
    assert found(a_merge(1, 0, "day=2"), gone).fewer == 10
    # What merges make afterwards stays, and of several removals the first one counts.
    later = header(4, op, 8, "day=1", parts_in=1)
    assert found(a_merge(1, 0), gone, later).fewer == pytest.approx(10 / 2)
    assert found(a_merge(1, 0, "day=2"), gone, a_merge(4, 5, "day=1")).fewer == 15


def test_other_prices_change_the_money_and_not_the_requests() -> None:
    headers = [a_merge(1, 0)]
    dear = money(headers, frozenset(), T + DAY_MS, GRACE, Prices(put=0, get=0.004))
    cheap = money(headers, frozenset(), T + DAY_MS, GRACE, Prices(put=0, get=0.0004))
    assert dear is not None
    assert cheap is not None
    assert dear.requests == cheap.requests
    assert (dear.spent, dear.saved) == pytest.approx((10 * cheap.spent, 10 * cheap.saved))
    assert dear.to_json()["prices"] == {"put_of_1000": 0, "get_of_1000": 0.004}


def test_the_details_of_a_table_have_it_as_plain_data_and_send_no_request_for_it(
    tmp_path: Path,
) -> None:
    world = filled(4)
    merge(world, tmp_path)
    reading = read(world.table, HISTORY, erases={})
    sent = world.store.counters.as_dict()
    plain: dict[str, Any] = detail_of(reading)["money"]
    assert world.store.counters.as_dict() == sent
    assert (plain["transactions"], plain["requests_saved_by_a_scan"]) == (1, 0)
    world.clock.advance(DAY_MS)
    later = detail_of(read(world.table, HISTORY, erases={}))["money"]
    assert later["requests_saved_by_a_scan"] == 6
    assert later["usd_saved_by_1000_scans"] == pytest.approx(6 * 0.0004)
    assert later["scans_to_be_even"] > 0
    assert later["assumed"]
    assert later["left_out"]


@pytest.mark.parametrize(("partitions", "saved"), [(("day=0",), 6), (("*",), 0)])
def test_a_merge_that_a_restore_has_undone_in_part_still_counts(
    tmp_path: Path, partitions: tuple[str, ...], saved: int
) -> None:
    world = filled(4)
    drop(world, "day=2")  # nothing: a state before the merge
    merge(world, tmp_path)
    world.clock.advance(10)
    run_restore(Work(world.table, RUN), RestoreOptions(to=1, partitions=partitions))
    world.clock.advance(DAY_MS)
    plain = detail_of(read(world.table, HISTORY, erases={}))["money"]
    assert plain["requests_saved_by_a_scan"] == saved


@pytest.mark.long
def test_requests_that_cost_most_are_those_that_the_store_has_counted(tmp_path: Path) -> None:
    world = make_world(partition_by=["day(ts)"], sort_by=["id"], cleanup={"grace": "6h"})
    world.clock.now = world.clock.now // DAY_MS * DAY_MS + 1
    life = Life(world, tmp_path)
    life.days(2.2)
    sent = life.requests()
    requests = detail_of(read(world.table, HISTORY, erases={}))["money"]["requests"]
    assert (requests["put"], requests["delete"]) == (sent["put"], sent["delete"])
    assert requests["list"] == pytest.approx(sent["list"], rel=0.15)
