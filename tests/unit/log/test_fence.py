"""What began before the fence has ended: what still arrives of it counts for nobody."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from firnline.commit.checkpoint import encode
from firnline.log.checkpoint import decode
from firnline.log.erases import EraseLink, erase_record
from firnline.log.fence import (
    NO_FENCE,
    Fence,
    behind,
    covers_what_came_back,
    fence_of,
    fence_record,
    raised,
)
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import LogContent, LogTombstone, Marker, TxnMark
from firnline.log.superseded import without_superseded
from firnline.paths import TablePaths
from firnline.settings.ages import LEAST_ORPHAN_MS, LONGEST_UNTOLD_MS
from firnline.state.snapshot import build

PATHS = TablePaths("t")
TXN = "018bcfe5-6802-7000-8000-00000000000"


def txn_key(seq: int, t: int) -> str:
    return PATHS.txn_log(t, seq, f"{TXN}{seq}")


def append(t: int, q: int | None) -> tuple[str, LogContent]:
    key = PATHS.append_log(t, f"w-{TXN}{t % 10}")
    part = PATHS.data_part("d=1", f"{TXN}{t % 10}")
    return key, LogContent(t=t, schema={"v": "INTEGER"}, markers=[Marker(part, 1, t, n=1, q=q)])


def transaction(
    seq: int,
    t: int,
    standing: tuple[int, ...] | None = (),
    folds: tuple[str, ...] = (),
    fence: Fence = NO_FENCE,
) -> tuple[str, LogContent]:
    content = LogContent(
        t=t,
        schema={"v": "INTEGER"},
        tombstones=[LogTombstone(key, t) for key in folds],
        other=[fence_record(fence)] if fence.seq else [],
        x=TxnMark(seq, f"{TXN}{seq}", "merge", 0, standing),
    )
    return txn_key(seq, t), content


def read(*files: tuple[str, LogContent], modified: int = 0) -> LogRead:
    listing = {key: LogObject(PATHS.parse_log(key), 1, modified) for key, _ in files}
    return LogRead(listing, dict(files))


def test_an_append_that_nobody_folded_is_behind_a_fence_above_its_sequence() -> None:
    late, (key, content) = append(11, 2), transaction(5, 20, fence=Fence(3, 10))
    log = read(late, append(12, 3), append(13, None), (key, content))
    assert behind(log) == {late[0]}
    state = build(PATHS, log)
    assert state.behind.keys() == {late[0]}
    assert late[0] not in state.listing
    assert {m.t for m in state.live.values()} == {12, 13}
    assert state.fence == Fence(3, 10)


def test_readers_have_read_what_came_too_late_until_the_fence_passed_it() -> None:
    """So the grace of its parts begins then, with the first log file whose fence is above it."""
    late, below = append(11, 2), transaction(4, 15, fence=Fence(2, 8))
    first, second = (
        transaction(5, 20, fence=Fence(3, 10)),
        transaction(6, 21, (4, 5), fence=Fence(4, 15)),
    )
    log = read(late, below, first, second)
    times = {late[0]: 50, below[0]: 40, first[0]: 70, second[0]: 90}
    listing = {key: replace(item, modified_ms=times[key]) for key, item in log.listing.items()}
    state = build(PATHS, replace(log, listing=listing))
    assert state.behind_since == {late[0]: 70}


def test_what_came_back_was_read_by_nobody() -> None:
    back = transaction(2, 12)
    log = read(back, transaction(5, 20, fence=Fence(3, 10)), modified=7)
    assert build(PATHS, log).behind_since == {back[0]: 7}


def test_one_that_was_folded_counts_through_the_transaction_that_folded_it() -> None:
    early = append(11, 2)
    log = read(early, transaction(5, 20, folds=(early[0],), fence=Fence(3, 10)))
    assert behind(log) == frozenset()


def test_a_part_that_only_folded_log_files_list_alive_is_dead() -> None:
    """Who folded it has carried what lives: a log file that comes back brings nothing along."""
    back, stays = append(11, 2), append(12, 3)
    key, content = transaction(5, 20, folds=(back[0], stays[0]))
    content = msgspec.structs.replace(content, markers=stays[1].markers)
    state = build(PATHS, read(back, stays, (key, content)))
    assert state.live.keys() == {m.p for m in stays[1].markers}
    assert state.parts.keys() > state.live.keys()


def test_a_transactions_log_file_that_comes_back_is_in_no_standing_list() -> None:
    back, stands = transaction(2, 12), transaction(3, 13)
    log = read(back, stands, transaction(5, 20, standing=(3,)))
    assert behind(log) == {back[0]}
    assert build(PATHS, log).seq == 5
    mentioned = read(back, stands, transaction(5, 20, standing=(3,), folds=(back[0],)))
    assert behind(mentioned) == frozenset(), "its tombstone is enough"
    unknown = read(back, stands, transaction(5, 20, standing=None))
    assert behind(unknown) == frozenset(), "an older version does not say what stands"


def test_a_checkpoint_that_covers_a_log_file_which_came_back_is_done_without() -> None:
    back, stands, newest = transaction(2, 12), transaction(3, 13), transaction(5, 20, standing=(3,))
    log = read(back, stands, newest)
    state = build(PATHS, read(stands, newest))
    made = decode("t/_ckpt/x", encode(state), PATHS)
    for covered, away in ((stands[0], False), (back[0], True)):
        known = replace(made, covered=frozenset({covered}))
        assert covers_what_came_back(replace(log, checkpoint=known)) is away


def test_a_fold_keeps_the_highest_fence_alone() -> None:
    other = erase_record(EraseLink(1, "id", 1, 1, "plan"))
    lines = [fence_record(Fence(3, 10)), fence_record(Fence(7, 20)), other, b'{"new":1}']
    assert fence_of(lines) == Fence(7, 20)
    kept = without_superseded(lines)
    assert fence_record(Fence(7, 20)) in kept
    assert fence_record(Fence(3, 10)) not in kept
    assert {other, b'{"new":1}'} <= set(kept)
    assert fence_of([b'{"fence":{"seq":"x"}}', b'{"fence":7}']) == NO_FENCE


@pytest.mark.parametrize(
    ("listed_ms", "least", "fence"),
    [
        (150, None, Fence(1, 5)),  # nothing is older than that
        (151, None, Fence(2, 12)),
        (351, None, Fence(4, 14)),
        (351, 4, Fence(4, 14)),
        (351, 3, Fence(3, 13)),  # an append stays unfolded that read 3
        (351, 1, Fence(1, 5)),
    ],
)
def test_a_transaction_raises_the_fence_to_the_newest_that_all_work_under_way_has_seen(
    listed_ms: int, least: int | None, fence: Fence
) -> None:
    listing = {
        txn_key(seq, 10 + seq): LogObject(PATHS.parse_log(txn_key(seq, 10 + seq)), 1, modified)
        for seq, modified in ((2, 100), (3, 200), (4, 300))
    }
    appended = PATHS.append_log(1, f"w-{TXN}1")
    listing[appended] = LogObject(PATHS.parse_log(appended), 1, 1)
    lines = [fence_record(Fence(1, 5))]
    assert raised(lines, listing, listed_ms, 50, least).fence == fence


def test_the_first_fence_waits_for_appends_that_have_read_no_times_of_the_table() -> None:
    key = txn_key(1, 10)
    listing = {key: LogObject(PATHS.parse_log(key), 1, 100)}
    assert raised([], listing, 100 + LEAST_ORPHAN_MS, 50).fence == NO_FENCE
    assert raised([], listing, 101 + LEAST_ORPHAN_MS, 50).fence == Fence(1, 10)
    assert LONGEST_UNTOLD_MS < LEAST_ORPHAN_MS


def test_a_transaction_becomes_the_fence_though_its_log_file_is_gone_by_then() -> None:
    """Log files that are folded stay for the grace, which may be shorter than that."""
    hour = 3_600_000
    lines: list[bytes] = [fence_record(Fence(1, 1))]
    fences: list[int] = []
    for seq in range(2, 200):
        now = seq * hour
        key = txn_key(seq % 10, now)  # the number in the name is replaced below
        name = replace(PATHS.parse_log(key), seq=seq)
        stated = raised(lines, {key: LogObject(name, 1, now)}, now + hour, 40 * hour)
        lines = without_superseded([*lines, fence_record(stated)])
        fences.append(seq - stated.seq)
        assert len(stated.next) <= 10
    assert len(lines) == 1
    assert max(fences[60:]) <= 40 + 40 // 8 + 1
    assert min(fences[60:]) >= 40
