from __future__ import annotations

from firnline.log.txn_file import Counts, TxnHeader
from firnline.operations.health.savings import BUCKETS, savings

HOUR = 3_600_000
DAY = 24 * HOUR
T = 20_000 * DAY


def header(seq: int, op: str, t: int, **counts: int) -> TxnHeader:
    return TxnHeader(seq=seq, txn="x", op=op, base=seq - 1, t=t, log="", counts=Counts(**counts))


def test_merges_save_requests_and_clean_ups_save_bytes() -> None:
    found = savings(
        [
            header(3, "rewrite", T + 2 * HOUR, parts_in=9, parts_out=1, bytes_in=9),
            header(2, "cleanup", T + 2 * HOUR + 5, parts_in=20, bytes_in=700),
            header(1, "merge", T, parts_in=20, parts_out=2, bytes_in=800, bytes_out=700),
        ]
    )
    assert (found.since, found.step_ms, found.requests, found.bytes) == (T, HOUR, 18, 700)
    assert [(one.t, one.requests, one.bytes) for one in found.buckets] == [
        (T, 18, 0),
        (T + HOUR, 0, 0),
        (T + 2 * HOUR, 0, 700),
    ]


def test_an_undone_merge_saves_nothing() -> None:
    headers = [header(n, "merge", T, parts_in=5, parts_out=1) for n in (2, 1)]
    assert savings(headers, {2}).requests == 4


def test_a_long_history_has_longer_buckets() -> None:
    days = [header(n, "merge", T + n * DAY, parts_in=3, parts_out=1) for n in range(50, 0, -1)]
    found = savings(days)
    assert (found.step_ms, len(found.buckets), found.requests) == (DAY, 50, 100)
    years = [header(n, "merge", T + n * 30 * DAY, parts_in=2, parts_out=1) for n in range(9, 0, -1)]
    assert len(savings(years).buckets) <= BUCKETS


def test_without_transactions_there_is_nothing() -> None:
    found = savings([]).to_json()
    assert (found["since"], len(found["buckets"]), found["requests"]) == (None, 0, 0)
