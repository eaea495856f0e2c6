"""Rebuild: what comes back is what was there, whatever happened to the table before."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.commit.base import take_base
from firnline.errors import (
    CommitConflictError,
    CommitUnknownError,
    FindingsError,
    LogCorruptError,
    StoreUnavailableError,
    UsageError,
)
from firnline.log.records import Marker
from firnline.log.taken_in import TakenIn
from firnline.operations.operation import Work
from firnline.operations.options import (
    RebuildOptions,
    RelocateOptions,
    RestoreOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import RebuildReport, preview, run_rebuild
from firnline.operations.relocate.run import run_relocate
from firnline.operations.restore.run import run_restore
from firnline.operations.verify.run import run_verify
from firnline.settings.load import settings_for_root
from firnline.state.history import history
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from tests.support import histories
from tests.support.beside import Beside
from tests.support.cleanups import check, clean_up
from tests.support.histories import RUN, append, filled, ids_of, lose_log, merge, state, table_world
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.moving import copied
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import Asleep, Crashed, MemoryStore, World, make_world


def rebuild(world: World, **options: object) -> RebuildReport:
    world.clock.advance(1)
    return run_rebuild(Work(world.table, RUN), RebuildOptions(**options))  # type: ignore[arg-type] # by name


def facts(marker: Marker) -> tuple[object, ...]:
    """What has to come back of a live part, but for the time of an append no fold has seen."""
    return (marker.p, marker.b, marker.n, marker.q or 0, marker.d, bytes(marker.s))


def assert_same(before: Snapshot, after: Snapshot, world: World) -> None:
    assert {p: facts(m) for p, m in after.live.items()} == {
        p: facts(m) for p, m in before.live.items()
    }
    existing = world.store.objects.keys()
    dead = {p: m.tmb for p, m in before.parts.items() if m.tmb is not None and p in existing}
    assert dead.items() <= {p: m.tmb for p, m in after.parts.items()}.items()
    assert dict(after.schema) == dict(before.schema)
    assert before.deletes.items() <= after.deletes.items()
    assert after.purged >= before.purged
    assert after.seq > before.seq
    assert v1_live(world) == after.live.keys()
    for partition, markers in after.partitions.items():
        for marker in markers:
            known = before.parts[marker.p]
            pending = {d.id for d in before.pending_deletes(known, partition)}
            assert pending <= {d.id for d in after.pending_deletes(marker, partition)}


# --- random lives ---------------------------------------------------------------------------------


@dataclass
class Life:
    """One random life of a table, and what of its objects was never in it."""

    seed: int
    scratch: Path
    world: World = field(default_factory=histories.table_world)
    never: set[str] = field(default_factory=set)
    """Objects of appends and merges that died before they were published."""
    first: int = 0

    def live_through(self, steps: int) -> None:
        chance = random.Random(self.seed)
        doings: list[tuple[int, Callable[[], None]]] = [
            (8, self._append),
            (2, self._append_that_dies),
            (4, lambda: merge(self.world, self.scratch)),
            (2, self._merge_that_dies),
            (1, self._merge_that_is_not_published),
            (1, lambda: histories.drop(self.world, f"day={chance.randrange(2)}")),
            (1, lambda: histories.delete_lazily(self.world, chance.randrange(self.first + 1))),
            (2, lambda: histories.clean_up(self.world)),
        ]
        weights = [weight for weight, _ in doings]
        self._append()
        for _ in range(steps):
            (_, do), *_rest = chance.choices(doings, weights)
            do()

    def _append(self) -> None:
        append(self.world, self.first)
        self.first += 6

    def _append_that_dies(self) -> None:
        with self._left_behind():
            table = self.world.table
            dying = histories.dies_at(
                self.world, "put t/_log/", "before",
                lambda store: histories.append_to(table, store, self.first),
            )  # fmt: skip
            assert dying
        self.first += 6

    def _merge_that_dies(self) -> None:
        self._merge("put t/_txn/", "before")

    def _merge_that_is_not_published(self) -> None:
        self._merge("put t/_log/", "before")

    def _merge(self, call: str, kind: str) -> None:
        state(self.world)  # publishes what waits: its put must not be the one that is hit
        with self._left_behind():
            histories.dies_at(
                self.world, call, kind, lambda store: merge(self.world, self.scratch, store)
            )

    def _left_behind(self) -> _LeftBehind:
        return _LeftBehind(self)


@dataclass
class _LeftBehind:
    life: Life
    before: set[str] = field(default_factory=set)

    def __enter__(self) -> None:
        self.before = set(self.life.world.store.objects)

    def __exit__(self, *_: object) -> None:
        world = self.life.world
        new = set(world.store.objects) - self.before
        txns = {k for k in new if "/_txn/" in k}
        if not txns:  # else it is committed: whoever comes next publishes it
            self.life.never |= {k for k in new if "/_data/" in k}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_rebuilt_table_is_the_one_that_was_lost(seed: int, tmp_path: Path) -> None:
    life = Life(seed, tmp_path)
    life.live_through(12)
    world = life.world
    before = state(world)
    lose_log(world)
    if not before.live:
        return
    never = tuple(key for key in life.never if key in world.store.objects)
    plan = preview(world.table, RebuildOptions())
    assert plan.missing == ()
    assert {j.key for j in (*plan.undecided, *plan.left_out)} <= set(never)
    # What cannot be told from a part of the table is told of.
    doubtful = {j.key for j in (*plan.found, *plan.undecided)}
    assert set(never) & {m.p for m in plan.live} <= doubtful
    report = rebuild(world, exclude=never)
    assert report.transactions == (before.seq + 1,)
    assert_same(before, state(world), world)
    findings = run_verify(Work(world.table), VerifyOptions(deep=True))
    assert findings.healthy, findings.findings
    append(world, 1000)
    merge(world, tmp_path)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


# --- single cases ---------------------------------------------------------------------------------


@pytest.mark.long
def test_appends_alone_come_back_from_their_footers(tmp_path: Path) -> None:
    world = filled()
    before = state(world)
    lose_log(world)
    report = rebuild(world)
    assert_same(before, state(world), world)
    assert len(report.plan["found"]) == 8  # type: ignore[arg-type] # a list
    assert report.plan["named"] == 0
    assert sum(ids_of(world).values()) == 24
    orders = {p: m.order() for p, m in state(world).live.items()}
    assert orders == {p: (m.t, m.t) for p, m in before.live.items()}


def test_its_header_says_whose_appends_it_took_in_and_not_those_of_before(tmp_path: Path) -> None:
    world = filled()
    append(world, 24, by=Appender(world.table, writer="billing"))
    merge(world, tmp_path)
    del world.store.objects[history(world.table)[0].log]
    append(world, 30, by=Appender(world.table, writer="web"))
    rebuild(world, force=True)
    rebuilt, merged = history(world.table)
    assert [each.writer for each in merged.appends] == ["billing", ""]
    assert rebuilt.appends == (TakenIn(writer="web", appends=1, parts=2, rows=6),)


def test_by_a_root_alone_a_table_is_rebuilt_with_the_statistics_that_it_asks_for() -> None:
    world = filled()
    before = state(world)
    assert any(marker.stats() for marker in before.live.values())
    lose_log(world)
    world.clock.advance(1)
    bare = replace(world.table, settings=settings_for_root(world.settings.root))
    run_rebuild(Work(bare, RUN), RebuildOptions())
    assert_same(before, state(world), world)


@pytest.mark.long
def test_an_orphan_of_a_merge_that_never_committed_kills_no_live_part(tmp_path: Path) -> None:
    world = filled()
    histories.dies_at(world, "put t/_txn/", "before", lambda s: merge(world, tmp_path, s))
    append(world, 24)
    merge(world, tmp_path)  # the history goes on; the orphans name parts of it as replaced
    before = state(world)
    lose_log(world)
    rebuild(world)
    assert_same(before, state(world), world)
    assert ids_of(world) == dict.fromkeys(range(30), 1)


@pytest.mark.long
def test_an_orphan_alone_with_its_live_inputs_is_left_out_once_a_transaction_is_there(
    tmp_path: Path,
) -> None:
    world = filled()
    histories.drop(world, "day=9")
    histories.dies_at(world, "put t/_txn/", "before", lambda s: merge(world, tmp_path, s))
    lose_log(world)
    plan = preview(world.table, RebuildOptions())
    assert len(plan.left_out) == 2
    assert "never committed" in plan.left_out[0].reason
    rebuild(world)
    assert ids_of(world) == dict.fromkeys(range(24), 1)


@pytest.mark.long
def test_without_any_transaction_somebody_decides_on_merged_parts(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    lose_log(world)
    del world.store.objects[world.table.paths.txn(1)]
    with pytest.raises(FindingsError, match="2 objects of table t may be live or left over"):
        rebuild(world)
    merged = [j.key for j in preview(world.table, RebuildOptions()).undecided]
    assert len(merged) == 2
    rebuild(world, include=("t/_data/day=0/*",), exclude=("t/_data/day=1/*",))
    live = state(world).live.keys()
    # Included: it stands for its inputs. Excluded with everything else of its partition: gone.
    assert live == {m for m in merged if "day=0" in m}


def test_a_part_of_a_replaced_append_is_left_out_when_its_merge_is_included(
    tmp_path: Path,
) -> None:
    world = filled()
    merge(world, tmp_path)
    lose_log(world)
    del world.store.objects[world.table.paths.txn(1)]
    rebuild(world, include=("*",))
    assert ids_of(world) == dict.fromkeys(range(24), 1)
    assert len(state(world).live) == 2


def test_an_append_older_than_a_transaction_that_would_name_it_is_asked_about(
    tmp_path: Path,
) -> None:
    world = filled()
    histories.dies_at(
        world, "put t/_log/", "before",
        lambda store: histories.append_to(world.table, store, 100),
    )  # fmt: skip
    world.clock.advance(24 * 3_600_000)
    append(world, 24)
    merge(world, tmp_path)
    lose_log(world)
    plan = preview(world.table, RebuildOptions())
    assert len(plan.undecided) == 2
    assert "left-over" in plan.undecided[0].reason
    rebuild(world, exclude=tuple(j.key for j in plan.undecided))
    assert ids_of(world) == dict.fromkeys(range(30), 1)


@pytest.mark.long
@pytest.mark.parametrize("behind", [0, 500, 5000])
def test_copies_that_a_dead_restore_has_left_bring_no_dropped_row_back(behind: int) -> None:
    world = table_world()

    def slowly(first: int) -> Iterator[pa.RecordBatch]:
        yield from histories.rows_from(first).to_batches()
        world.clock.advance(1000)

    for first in (0, 6):
        Appender(world.table).append(slowly(first))
    histories.drop(world, "day=0")
    world.clock.advance(-behind)  # the restore's machine has its own clock

    def die() -> None:
        raise Crashed("before the commit")

    table = replace(world.table, store=Beside(world.store, what="put t/_txn", act=die))
    with pytest.raises(Crashed):
        run_restore(Work(table, RUN), RestoreOptions(to=0))
    lose_log(world)
    asked = preview(world.table, RebuildOptions(dry_run=True)).undecided
    assert [judged.key.split("/")[2] for judged in asked] == ["day=0", "day=0"]
    assert "looks like a copy of" in asked[0].reason
    rebuild(world, exclude=tuple(judged.key for judged in asked))
    assert visible_ids(world.table) == Counter(range(1, 12, 2))


def test_parts_of_a_writer_whose_clock_was_ahead_are_there_since_the_rebuild_at_the_latest() -> (
    None
):
    world = filled(1)
    world.clock.advance(10_000_000)
    append(world, 6)
    world.clock.advance(-10_000_000)
    lose_log(world)
    rebuild(world)  # 1
    histories.drop(world, "day=0")  # 2
    assert visible_ids(world.table) == Counter([1, 3, 5, 7, 9, 11])
    # Dated after the drop, they would count as appended since, and be brought back.
    assert run_restore(Work(world.table, RUN), RestoreOptions(to=2)).transaction is None
    assert visible_ids(world.table) == Counter([1, 3, 5, 7, 9, 11])


def test_a_delete_hides_what_it_hid_of_a_part_that_says_no_sequence() -> None:
    """It follows from the time of the part, which is not that of the rebuild."""
    world = filled(1)
    rows = histories.rows_from(6).filter([True, False] * 3)
    kinds = {"id": "BIGINT", "day": "BIGINT", "name": "VARCHAR"}
    V1Client(world).append_rows("day=0", rows, kinds)
    histories.delete_lazily(world, 8)
    right = visible_ids(world.table)
    assert right == Counter([8, 10])
    lose_log(world)
    rebuild(world)
    assert visible_ids(world.table) == right


def test_of_two_parts_that_nobody_names_each_may_be_a_copy_of_the_other() -> None:
    world = filled(1)
    (key,) = (k for k in world.store.objects if "day=0" in k)
    world.clock.advance(10)
    world.store.copy(key, world.table.paths.data_part("day=0", world.ids.uuid7(world.clock.now)))
    lose_log(world)
    one, other = preview(world.table, RebuildOptions(dry_run=True)).undecided
    assert {one.key, other.key} > {key}
    assert (one.key in other.reason, other.key in one.reason) == (True, True)


# --- tables that had another name -----------------------------------------------------------------


def lose_history(world: World) -> None:
    """Log and transactions are gone."""
    lose_log(world)
    for key in [k for k in world.store.objects if "/_txn/" in k]:
        del world.store.objects[key]


def test_of_a_copied_table_the_merged_rows_are_not_taken_twice(tmp_path: Path) -> None:
    """Outputs of merges and their inputs lie side by side; their footers name the original."""
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    copy = copied(world)
    lose_history(copy)
    with pytest.raises(FindingsError, match="2 objects of table copy may be live or left over"):
        rebuild(copy, revive=True)
    undecided = tuple(j.key for j in preview(copy.table, RebuildOptions()).undecided)
    rebuild(copy, include=undecided, revive=True)
    assert visible_ids(copy.table) == Counter(range(30))


@pytest.mark.long
def test_what_a_dead_merge_left_before_the_table_was_renamed_stays_out(tmp_path: Path) -> None:
    world = filled()
    histories.dies_at(world, "put t/_txn/", "before", lambda s: merge(world, tmp_path, s))
    append(world, 24)
    merge(world, tmp_path)
    renamed = copied(world, "new", rename=True)
    run_relocate(Work(renamed.table), RelocateOptions())
    append(renamed, 30)
    before = state(renamed)
    lose_log(renamed)
    plan = preview(renamed.table, RebuildOptions())
    assert len(plan.left_out) == 2
    rebuild(renamed)
    assert_same(before, state(renamed), renamed)
    assert visible_ids(renamed.table) == Counter(range(36))


@pytest.mark.long
def test_deleted_rows_of_a_renamed_table_stay_away(tmp_path: Path) -> None:
    """An append that began before the delete and wrote its parts after it."""
    world = filled()
    histories.dies_at(world, "put t/_txn/", "before", lambda s: merge(world, tmp_path, s))

    def slowly() -> Iterator[pa.RecordBatch]:
        histories.delete_lazily(world, 27)
        world.clock.advance(1000)
        yield from histories.rows_from(24).to_batches()

    Appender(world.table).append(slowly())
    assert visible_ids(world.table) == Counter(range(27, 30))
    renamed = copied(world, "new", rename=True)
    run_relocate(Work(renamed.table), RelocateOptions())
    lose_log(renamed)
    rebuild(renamed)
    assert visible_ids(renamed.table) == Counter(range(27, 30))


def test_a_whole_log_is_not_rebuilt() -> None:
    world = filled()
    with pytest.raises(UsageError, match="is whole: it is readable"):
        rebuild(world)
    rebuild(world, force=True)
    assert ids_of(world) == dict.fromkeys(range(24), 1)
    with pytest.raises(UsageError, match="is whole: it is readable"):
        rebuild(world)


@pytest.mark.long
def test_a_log_that_lost_some_of_its_files_is_completed(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    before = state(world)
    writer = histories.writer(world)
    first = {k: v for k, v in lose_log(world).items() if "_m_" in k}
    append(world, 24, by=writer)  # it notices nothing
    with pytest.raises(LogCorruptError, match="firnline rebuild"):
        take_base(world.table)
    world.store.objects |= first  # published again all the same, as firnline once did
    histories.drop(world, "day=9")
    lost = lose_log(world)
    world.store.objects |= {k: v for k, v in lost.items() if "_m_" not in k}
    rebuild(world)
    after = state(world)
    assert after.live.keys() >= before.live.keys()
    assert len(after.listing.keys() - after.log_tombstones.keys()) == 1, "the rest is folded"
    assert ids_of(world) == dict.fromkeys(range(30), 1)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_a_part_that_is_deleted_does_not_come_back_by_a_log_file_that_is_left(
    tmp_path: Path,
) -> None:
    # A clean-up that died has deleted the parts, and not yet the log files that brought them.
    world = filled()
    appends = {k: v for k, v in world.store.objects.items() if "/_log/" in k}
    merge(world, tmp_path)
    histories.clean_up(world)
    world.store.objects |= appends
    for key in [k for k in world.store.objects if "/_log/" in k and k not in appends]:
        del world.store.objects[key]
    rebuild(world)
    live = state(world).live.keys()
    assert v1_live(world) == live
    assert live <= world.store.objects.keys()
    assert ids_of(world) == dict.fromkeys(range(24), 1)


def test_a_log_file_that_counts_no_more_shows_no_deleted_part_to_version_1() -> None:
    """For such a client it counts as long as it is there."""
    world = make_world()
    made = do_merge(world, put_append(world) + put_append(world)).header.log
    old = world.store.objects[made]
    (part,) = snapshot(world).live
    do_merge(world, [part, *put_append(world)])
    for _ in range(4):  # until nothing says any more that it was folded
        world.clock.advance(2 * world.settings.cleanup.grace)
        do_merge(world, put_append(world) + put_append(world))
        clean_up(world)
    assert {part, made}.isdisjoint(world.store.objects)
    live = set(snapshot(world).live)
    world.store.objects[made] = old
    assert made in snapshot(world).behind
    rebuild(world, force=True)
    check(world, live)


@pytest.mark.parametrize("folder", ["_log", "_txn"])
def test_files_that_do_not_read_have_to_be_moved_away_first(folder: str, tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    key = max(k for k in world.store.objects if f"/{folder}/" in k)
    if folder == "_txn":
        lose_log(world)
    kept = world.store.objects[key]
    world.store.objects[key] = (kept[0][:-20], kept[1])
    with pytest.raises(LogCorruptError, match=key) as refused:
        rebuild(world, force=True)
    assert "move them out of _log/ and _txn/" in refused.value.next_step


def test_the_log_of_a_table_that_was_copied_is_not_to_be_moved_away(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    copy = copied(world)
    with pytest.raises(LogCorruptError, match="cannot be read") as refused:
        rebuild(copy, force=True)
    assert "firnline relocate" in refused.value.next_step
    assert "move" not in refused.value.next_step


@pytest.mark.long
def test_a_part_whose_object_is_gone_is_told_and_not_named(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    lost = min(state(world).live)
    lose_log(world)
    del world.store.objects[lost]
    report = rebuild(world)
    assert report.plan["missing"] == [lost]
    assert lost not in state(world).live
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_parts_of_other_clients_come_back_by_their_footers(tmp_path: Path) -> None:
    world = histories.table_world(partition_by=[], partition=".*", sort_by=[])
    client = V1Client(world)
    key = client.append("d=1")
    data = histories.parquet_bytes(histories.rows_from(0))
    world.store.objects[key] = (data, world.clock.now)
    lose_log(world)
    rebuild(world)
    (marker,) = state(world).live.values()
    assert (marker.p, marker.n, marker.b, marker.q) == (key, 6, len(data), None)
    assert state(world).schema == {"id": "BIGINT", "day": "BIGINT", "name": "VARCHAR"}


@pytest.mark.long
def test_an_object_that_is_no_part_is_left_out() -> None:
    world = filled()
    lose_log(world)
    world.store.objects["t/_data/day=0/notes.txt"] = (b"hello", world.clock.now)
    plan = preview(world.table, RebuildOptions())
    assert [j.key for j in plan.left_out] == ["t/_data/day=0/notes.txt"]
    rebuild(world)
    assert ids_of(world) == dict.fromkeys(range(24), 1)


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_glob_that_matches_nothing_is_refused_by_name(option: str) -> None:
    world = filled()
    lose_log(world)
    before = dict(world.store.objects)
    for dry_run in (False, True):
        with pytest.raises(UsageError, match=f"--{option} 'day=O/' matches no object"):
            rebuild(world, dry_run=dry_run, **{option: ("*", "day=O/")})
    assert world.store.objects == before


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    lose_log(world)
    before = dict(world.store.objects)
    report = rebuild(world, dry_run=True)
    assert (report.transactions, report.plan["parts"], report.plan["rows"]) == ((), 2, 24)
    assert world.store.objects == before


class Rival(MemoryStore):
    """Commits a transaction while the parts are listed."""

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        found = [*super().list(prefix, start_after)]
        if prefix == "t/_data/":
            self.objects["t/_txn/00000000000000000001.jsonl"] = (b"a rival's", self.clock.now)
        return iter(found)


def test_a_rival_that_commits_first_wins() -> None:
    world = filled()
    lose_log(world)
    rival = Rival(world.clock)
    rival.objects = world.store.objects
    table = replace(world.table, store=rival)
    with pytest.raises(CommitConflictError, match="another process committed"):
        run_rebuild(Work(table, RUN), RebuildOptions())
    assert not [k for k in world.store.objects if "/_log/" in k]


class WithoutLog(MemoryStore):
    """A store that answers nothing to puts under ``_log/``."""

    def put_new(self, key: str, data: bytes) -> None:
        if "/_log/" in key:
            raise StoreUnavailableError(f"no answer to put {key}", next_step="try again")
        super().put_new(key, data)


def test_one_that_is_committed_and_not_published_is_told_of_and_mended_by_the_next() -> None:
    world = filled()
    lose_log(world)
    store = WithoutLog(world.clock)
    store.objects = world.store.objects
    with pytest.raises(CommitUnknownError, match="committed, and its log file is not published"):
        run_rebuild(Work(replace(world.table, store=store), RUN), RebuildOptions())
    assert not [k for k in world.store.objects if "/_log/" in k]
    rebuild(world)
    assert ids_of(world) == dict.fromkeys(range(24), 1)


@pytest.mark.long
def test_the_history_says_how_many_parts_and_rows_came_back(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    lose_log(world)
    rebuild(world)
    counts = history(world.table)[0].counts
    assert (counts.parts_in, counts.parts_out) == (4, 4)
    assert (counts.rows_in, counts.rows_out) == (30, 30)


def test_a_pool_only_table_is_not_probed() -> None:
    world = filled(locking="pool-only")
    lose_log(world)
    assert rebuild(world, revive=True).requests["put"] == 2, "the transaction"


def test_named_parts_cost_no_request(tmp_path: Path) -> None:
    world = filled()
    merge(world, tmp_path)
    append(world, 24)
    lose_log(world)
    report = rebuild(world)
    # The birth record, the transaction, two footers, and the probe. Listings of _log/, _txn/ and
    # _data/, of six folders whose objects may name a later transaction, and of _txn/ once more
    # after the commit.
    spent = {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}
    assert spent == {"get": 5, "put": 4, "list": 10, "delete": 1}


@pytest.mark.long
def test_a_log_that_is_lost_again_is_rebuilt_with_what_came_since(tmp_path: Path) -> None:
    world = filled()
    lose_log(world)
    rebuild(world)
    append(world, 24)
    writer = histories.writer(world)
    lose_log(world)
    append(world, 30, by=writer)  # it notices nothing
    rebuild(world)
    assert ids_of(world) == dict.fromkeys(range(36), 1)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy


def test_it_is_dated_after_every_transaction_even_by_a_clock_that_is_behind(
    tmp_path: Path,
) -> None:
    world = filled()
    merge(world, tmp_path)
    newest = world.table.paths.parse_log(max(state(world).listing)).t
    lose_log(world)
    world.clock.now -= 3_600_000
    rebuild(world)
    (name,) = state(world).listing
    assert world.table.paths.parse_log(name).t == newest + 1


@pytest.mark.parametrize("at", ["t/_txn/", "t/_data/", "t/_prepared/"])
def test_a_rebuild_that_slept_between_its_listings_takes_no_live_part_for_lost(
    at: str, tmp_path: Path
) -> None:
    world = filled()

    def maintained() -> None:
        append(world, 100)
        merge(world, tmp_path)
        histories.clean_up(world)

    store = Asleep(world.store, at=f"list {at}", meanwhile=maintained)
    plan = preview(replace(world.table, store=store), RebuildOptions(force=True))
    assert store.slept == 1
    assert not plan.missing
    assert {marker.p for marker in plan.live} == state(world).live.keys()
