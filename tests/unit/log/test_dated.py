"""When something took effect that is dated ahead, and which records of that are needed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from firnline.ids import format_uuid7
from firnline.log import dated
from firnline.log.reader import LogObject
from firnline.log.sinks import sink_record
from firnline.paths import TablePaths
from tests.support.world import START_MS

NOW = START_MS
FAR = dated.FAR_MS
PATHS = TablePaths("t")
OTHERS = [
    b'{"later":{"a":1}}',
    b'{"dated":{"t":1,"at":"noon"}}',
    b'{"dated":{"t":1,"at":1},"since":2}',
    sink_record("q", 7),
]
"""Of other kinds, or as a later version writes them."""


@pytest.mark.parametrize(
    ("t", "seen", "counts"),
    [
        (NOW - 5, NOW - 9, NOW - 5),
        (NOW - 9, NOW - 5, NOW - 5),
        (NOW + FAR, NOW - 5, NOW + FAR),
        (NOW + FAR + 1, NOW - 5, NOW - 5),
    ],
)
def test_what_is_dated_counts_since_the_later_of_date_and_sight_unless_that_is_far_ahead(
    t: int, seen: int, counts: int
) -> None:
    assert dated.since(t, seen, NOW) == counts
    assert dated.named_since(t, seen, NOW) == counts


def test_an_object_without_a_time_in_its_name_exists_since_it_was_modified() -> None:
    assert dated.named_since(None, NOW - 5, NOW) == NOW - 5


def listing(times: Iterable[tuple[int, int]]) -> dict[str, LogObject]:
    """Of (date, last-modified time)."""
    keys = [
        (PATHS.append_log(t, f"w-{n}"), modified) for n, (t, modified) in enumerate(times, start=1)
    ]
    return {key: LogObject(PATHS.parse_log(key), 1, modified) for key, modified in keys}


def test_only_dates_that_are_far_ahead_of_the_store_are_noted() -> None:
    one = NOW + FAR + 1
    found = dated.listed(listing([(NOW - 9, NOW), (NOW, NOW), (NOW + FAR, NOW), (one, NOW)]))
    assert found == {one: NOW}


@pytest.mark.parametrize("times", [(3, 5), (5, 3), (3, 3)])
def test_what_is_told_twice_took_effect_at_the_earlier_time(times: tuple[int, int]) -> None:
    one, other = (NOW + ms for ms in times)
    t = NOW + 2 * FAR
    assert dated.listed(listing([(t, one), (t, other)])) == {t: NOW + 3}
    assert dated.recorded([dated.record(t, one), dated.record(t, other)]) == {t: NOW + 3}
    assert dated.known(listing([(t, one)]), [dated.record(t, other)]) == {t: NOW + 3}


def test_what_is_only_listed_and_what_is_only_recorded_are_both_known() -> None:
    t = NOW + 2 * FAR
    assert dated.known(listing([(t, NOW)]), [dated.record(t + 1, 5)]) == {t: NOW, t + 1: 5}


def transactions(times: Iterable[tuple[int, int]]) -> dict[str, LogObject]:
    """Log files of transactions 1, 2, ... of (date, last-modified time)."""
    keys = [
        (PATHS.txn_log(t, seq, format_uuid7(t, seq)), modified)
        for seq, (t, modified) in enumerate(times, start=1)
    ]
    return {key: LogObject(PATHS.parse_log(key), 1, modified) for key, modified in keys}


T = NOW + 10 * FAR


def test_transactions_take_effect_one_after_the_other() -> None:
    """Those of one millisecond too: else nobody could ask for the state between them."""
    found = dated.known(transactions([(T, NOW), (T + 1, NOW), (T + 2, NOW)]), [])
    assert found == {T: NOW - 2, T + 1: NOW - 1, T + 2: NOW}


def test_a_later_transaction_corrects_what_a_clock_that_was_ahead_has_recorded() -> None:
    """Also where its log file is gone, and the record alone says that it was a transaction."""
    ahead = dated.record(T, NOW + 2 * FAR, txn=True)
    assert dated.known(transactions([(T + 1, NOW)]), [ahead]) == {T: NOW - 1, T + 1: NOW}
    append = dated.record(T, NOW + 2 * FAR)
    assert dated.known(transactions([(T + 1, NOW)]), [append])[T] == NOW + 2 * FAR


def test_what_is_dated_far_ahead_comes_after_a_transaction_that_is_dated_ahead_by_less() -> None:
    near = NOW + FAR
    log = transactions([(near, NOW), (T, NOW + 1), (T + 1, NOW + 2)])
    assert dated.known(log, []) == {T: near + 1, T + 1: near + 2}
    said = [dated.record(T + n, near + 1 + n, txn=True) for n in range(2)]
    later = {key: item for key, item in log.items() if item.name.t >= T}
    assert dated.known(later, said)[T] == near + 1, "when the other log file is deleted, too"
    early = [dated.record(T, NOW, txn=True)]
    assert dated.known(transactions([(near, NOW)]), early)[T] == near + 1, "by a clock behind"


def test_transactions_without_records_stay_in_order_after_an_append_that_is_ahead_by_less() -> None:
    near = NOW + FAR
    log = listing([(near, NOW)]) | transactions([(T, NOW), (T + 1, NOW)])
    assert dated.known(log, []) == {T: near + 1, T + 1: near + 2}


@pytest.mark.parametrize(
    ("date", "modified", "counts"),
    [
        (NOW + FAR, NOW, NOW + FAR + 1),
        (NOW + FAR, NOW + 1, NOW),  # it landed after the transaction
        (NOW - 1, NOW, NOW),
        (T - 1, NOW, NOW),  # it is not trusted itself
    ],
)
def test_a_transaction_without_a_record_comes_after_the_appends_that_it_saw(
    date: int, modified: int, counts: int
) -> None:
    """Its writer needs none where it took effect less than five minutes before its date."""
    log = listing([(date, modified)]) | transactions([(T, NOW)])
    assert dated.known(log, [])[T] == counts


@pytest.mark.parametrize(
    ("told", "counts"), [(-1, -1), (0, 0), (1, 1), (FAR, FAR), (FAR + 1, 0), (9 * FAR, 0)]
)
def test_a_transaction_that_records_a_time_far_after_its_log_file_is_not_believed(
    told: int, counts: int
) -> None:
    record = dated.record(T, NOW + told, txn=True)
    assert dated.known(transactions([(T, NOW)]), [record]) == {T: NOW + counts}


def test_an_append_that_is_dated_before_a_transaction_may_land_after_it() -> None:
    """As a read of a state before it goes on to show."""
    log = listing([(T, NOW + 9)]) | transactions([(T + 1, NOW)])
    assert dated.known(log, []) == {T: NOW + 9, T + 1: NOW}


def test_which_dates_are_of_transactions_is_listed_or_recorded() -> None:
    log = listing([(T, NOW)]) | transactions([(T + 1, NOW)])
    lines = [dated.record(T + 2, NOW), dated.record(T + 3, NOW, txn=True), *OTHERS]
    assert dated.of_transactions(log, lines) == {T + 1, T + 3}


@pytest.mark.parametrize("line", OTHERS)
def test_a_record_of_another_kind_says_nothing_of_time_and_is_never_left_out(line: bytes) -> None:
    assert dated.recorded([line]) == {}
    assert not dated.is_over(line, NOW, frozenset())
    assert not dated.is_corrected(line, {1: 0})


@pytest.mark.parametrize(
    ("t", "used", "over"),
    [(NOW - 1, (), True), (NOW - 1, (NOW - 1,), False), (NOW, (), False), (NOW + 1, (), False)],
)
def test_a_record_is_over_behind_the_purge_horizon_once_nothing_has_its_date(
    t: int, used: tuple[int, ...], over: bool
) -> None:
    assert dated.is_over(dated.record(t, 1), NOW, frozenset(used)) is over


@pytest.mark.parametrize(("best", "corrected"), [({}, False), ({7: 3}, False), ({7: 2}, True)])
def test_a_record_is_corrected_by_an_earlier_time_alone(
    best: dict[int, int], corrected: bool
) -> None:
    assert dated.is_corrected(dated.record(7, 3), best) is corrected
