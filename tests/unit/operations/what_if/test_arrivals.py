"""What a table has recorded of its arrivals: exact as long as the log knows, else reconstructed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.log.txn_file import Counts, TxnHeader
from firnline.operations.what_if.arrivals import Dropped, Recorded, recorded
from firnline.state.snapshot import Snapshot
from firnline.units import DAY_MS
from tests.support.effort import examples
from tests.support.world import START_MS, make_world

WORLD = make_world()
PATHS = WORLD.table.paths
HOUR_MS = DAY_MS // 24
NOW = START_MS + 10 * DAY_MS


def at(hour: float) -> int:
    return START_MS + round(hour * HOUR_MS)


def part(hour: float, size: int = 1_000, partition: str = "d=1", **fields: Any) -> Marker:
    key = PATHS.data_part(partition, WORLD.ids.uuid7(at(hour)))
    died = fields.pop("died", None)
    tmb = None if died is None else at(died)
    return Marker(**{"p": key, "b": size, "t": at(hour), "n": size, "tmb": tmb, **fields})


def merged(hour: float, span: tuple[float, float], size: int, **fields: Any) -> Marker:
    return part(hour, size, o=(at(span[0]), at(span[1])), **fields)


def header(hour: float, op: str, counts: dict[str, int], *partitions: str) -> TxnHeader:
    return TxnHeader(
        seq=round(hour) + 1,
        txn="x",
        op=op,
        base=0,
        t=at(hour),
        log="l",
        counts=Counts(**counts),
        partitions=partitions or ("d=1",),
    )


def state(*markers: Marker, purged: float | None = None) -> Snapshot:
    return Snapshot(
        paths=PATHS,
        listing={},
        contents={},
        parts={m.p: m for m in markers},
        log_tombstones={},
        deletes={},
        other=frozenset(),
        schema={},
        seq=0,
        purged=0 if purged is None else at(purged),
    )


def of(
    snapshot: Snapshot,
    *headers: TxnHeader,
    start: float = 0,
    most: int = 100_000,
    first: int = 1,
) -> Recorded:
    """``first``: number of the first of the transactions."""
    numbered = [structs.replace(h, seq=n) for n, h in enumerate(headers, first)]
    return recorded(snapshot, numbered, at(start), NOW, most)


def test_what_the_log_has_is_exact_and_dead_parts_have_come_too() -> None:
    dead, live = part(1, died=3), part(2, 700)
    found = of(state(dead, live, merged(3, (1, 1), 900)))
    assert [(each.t, each.marker.b) for each in found.arrivals] == [(at(1), 1_000), (at(2), 700)]
    assert all(each.marker.tmb is None for each in found.arrivals)
    assert (found.start, found.since, found.reconstructed) == (at(1) - 1, at(1) - 1, 0)
    assert (found.initial, found.bytes, found.cut) == ((), 1_700, False)


def test_parts_of_one_append_share_its_log_file() -> None:
    found = of(state(part(1), part(1, partition="d=2"), part(2)))
    assert [each.share for each in found.arrivals] == [0.5, 0.5, 1]


def test_a_later_start_finds_the_table_as_it_was() -> None:
    early, other = part(1, died=3), part(2)
    found = of(state(early, other, merged(3, (1, 1), 900), part(4)), start=2.5)
    assert {m.p for m in found.initial} == {early.p, other.p}
    assert [each.t for each in found.arrivals] == [at(4)]
    after = of(state(early, other, merged(3, (1, 1), 900), part(4)), start=3.5)
    assert sorted(m.b for m in after.initial) == [900, 1_000]


def test_what_was_deleted_is_reconstructed_from_what_merges_have_made() -> None:
    counts = {"parts_in": 10, "parts_out": 1, "bytes_in": 10_000, "bytes_out": 10_000}
    found = of(
        state(merged(12, (1, 10), 10_000), part(13), purged=12.5),
        header(12, "merge", counts),
    )
    assert (found.reconstructed, found.mean_bytes, found.since) == (10, 1_000, at(12.5))
    assert [each.t for each in found.arrivals[:3]] == [at(1), at(2), at(3)]
    assert found.bytes == 11_000
    assert sum(each.marker.n or 0 for each in found.arrivals) == 11_000


def test_arrivals_are_those_of_the_time_of_which_all_transactions_are_known() -> None:
    counts = {"parts_in": 10, "parts_out": 1, "bytes_in": 10_000, "bytes_out": 10_000}
    state_now = state(merged(12, (1, 10), 10_000), part(13), purged=12.5)
    whole = of(state_now, header(12, "merge", counts), header(12.2, "cleanup", {}))
    found = of(state_now, header(12, "merge", counts), header(12.2, "cleanup", {}), first=7)
    assert whole.start < at(1)
    assert found.start == at(12) - 1
    assert [each.t for each in found.arrivals] == [at(13)]


def test_without_the_first_transactions_parts_are_as_large_as_those_that_are_known() -> None:
    early = {"parts_in": 4, "parts_out": 1, "bytes_in": 4_000, "bytes_out": 4_000}
    finishing = {"parts_in": 2, "parts_out": 1, "bytes_in": 10_000, "bytes_out": 10_000}
    exact = [part(14 + n / 10, 500) for n in range(20)]
    state_now = state(merged(12, (3, 11), 10_000), *exact, purged=13)
    headers = header(2, "merge", early, "d=0"), header(12, "merge", finishing)
    assert of(state_now, *headers, first=7).mean_bytes == 500
    assert of(state_now, *headers).mean_bytes == 2_000


def test_parts_that_were_merged_twice_are_counted_once() -> None:
    first = {"parts_in": 10, "parts_out": 1, "bytes_in": 10_000, "bytes_out": 10_000}
    second = {"parts_in": 11, "parts_out": 1, "bytes_in": 20_000, "bytes_out": 20_000}
    found = of(
        state(merged(24, (1, 20), 20_000), purged=30),
        header(12, "merge", first),
        header(24, "merge", second),
    )
    assert (found.reconstructed, found.mean_bytes) == (20, 1_000)


def test_the_ratio_of_merges_is_measured_and_what_came_was_larger() -> None:
    counts = {"parts_in": 2, "parts_out": 1, "bytes_in": 2_000, "bytes_out": 500}
    exact = of(
        state(part(1, died=3), part(2, died=3), merged(3, (1, 2), 500)), header(3, "merge", counts)
    )
    assert exact.ratio == 0.25
    # The second merge reads what the first has written again, which keeps its size.
    again = {"parts_in": 2, "parts_out": 1, "bytes_in": 1_500, "bytes_out": 750}
    parts = state(
        merged(3, (1, 2), 500, died=5), part(4, died=5), merged(5, (1, 4), 750), purged=3.5
    )
    found = of(parts, header(3, "merge", counts), header(5, "merge", again))
    assert found.ratio == 0.25
    assert found.bytes == 2_000 + 1_000


def test_what_was_dropped_is_known_by_the_merges_that_named_it() -> None:
    counts = {"parts_in": 4, "parts_out": 1, "bytes_in": 4_000, "bytes_out": 4_000}
    gone = {"parts_in": 1, "bytes_in": 4_000}
    found = of(
        state(part(60), purged=50),
        header(2, "merge", counts, "d=0"),
        header(40, "drop", gone, "d=0"),
    )
    assert found.reconstructed == 4
    assert {each.partition for each in found.arrivals} == {"d=0", "d=1"}
    assert found.drops == (Dropped(at(40), ("d=0",)),)


def test_a_span_that_goes_on_after_the_start_is_one_part_by_then() -> None:
    counts = {"parts_in": 10, "parts_out": 1, "bytes_in": 10_000, "bytes_out": 10_000}
    found = of(
        state(merged(12, (1, 10), 10_000), purged=13), header(12, "merge", counts), start=5.5
    )
    (before,) = found.initial
    assert (before.b, before.order()) == (5_000, (at(1), at(5)))
    assert (found.reconstructed, found.bytes) == (5, 5_000)


def test_of_too_many_the_newest_are_taken_and_the_rest_is_there_already() -> None:
    found = of(state(*(part(hour) for hour in range(1, 11))), most=4)
    assert [each.t for each in found.arrivals] == [at(hour) for hour in (7, 8, 9, 10)]
    assert (len(found.initial), found.cut) == (6, True)
    assert found.start == at(6)


def test_what_is_not_played_is_counted() -> None:
    headers = (header(1, "merge", {}), header(2, "delete", {}), header(3, "cleanup", {}))
    assert of(state(part(0.5)), *headers, header(4, "delete", {})).not_played == {"delete": 2}


def test_a_log_without_any_append_says_nothing() -> None:
    with pytest.raises(UsageError, match="has no part of an append, and no merge"):
        of(state())


@given(
    st.lists(
        st.tuples(st.floats(0, 90), st.floats(0, 9), st.integers(1, 10**7)), min_size=1, max_size=9
    ),
    st.floats(0, 100),
    st.integers(1, 400),
    st.integers(1, 50),
)
@examples(60, 1_000)
def test_every_byte_is_there_once_and_not_more_parts_than_asked_for(
    spans: list[tuple[float, float, int]], start: float, taken: int, most: int
) -> None:
    made = [merged(110, (first, first + length), size) for first, length, size in spans]
    counts = {"parts_in": taken + len(made), "parts_out": len(made)}
    found = of(state(*made, purged=120), header(110, "merge", counts), start=start, most=most)
    whole = found.bytes + sum(m.b for m in found.initial)
    assert whole == sum(size for *_, size in spans)
    assert len(found.arrivals) <= most
    assert found.reconstructed == len(found.arrivals)
    keys = [each.marker.p for each in found.arrivals] + [m.p for m in found.initial]
    assert len(set(keys)) == len(keys)
