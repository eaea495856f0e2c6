"""Relocate: a table that was copied or renamed reads as it did before, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firnline.clock import SystemClock
from firnline.commit.base import take_base
from firnline.errors import (
    ForeignPathError,
    LogCorruptError,
    NothingToDoError,
    SnapshotUnstableError,
    UsageError,
)
from firnline.kernel.local import LocalEngine
from firnline.log import codec, txn_file
from firnline.log.records import Marker
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.erase.certificate import list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, EraseOptions, RelocateOptions, VerifyOptions
from firnline.operations.relocate.run import RelocateProgress, RelocateReport, run_relocate
from firnline.operations.verify.run import run_verify
from firnline.properties import record as birth
from firnline.settings.load import TableSettings, settings_for_root
from firnline.state.history import history
from firnline.state.snapshot import Snapshot, read_snapshot
from tests.support import histories
from tests.support.histories import RUN, append, filled, merge, state
from tests.support.log_tables import do_merge, put_append, v1_live
from tests.support.moving import copied, enriched, sized
from tests.support.reading import visible_ids
from tests.support.v1_client import V1Client
from tests.support.world import Asleep, World, make_world


def relocate(world: World, **options: Any) -> RelocateReport:
    world.clock.advance(1)
    return run_relocate(Work(world.table), RelocateOptions(**options))


def lived(scratch: Path) -> World:
    """Merged, cleaned up, with a pending delete, appends since, and what a dead merge left."""
    world = filled()
    merge(world, scratch)
    append(world, 24)
    histories.clean_up(world)
    append(world, 30)
    merge(world, scratch)
    append(world, 36)
    histories.delete_lazily(world, 3)
    append(world, 42)
    return world


def facts(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a log says, without where."""

    def own(key: str) -> str:
        return key.removeprefix(snapshot.paths.data_dir.removesuffix("_data/"))

    def plain(marker: Marker) -> Any:
        return {**msgspec.json.decode(msgspec.json.encode(marker)), "p": own(marker.p)}

    return {
        "parts": {own(p): plain(m) for p, m in snapshot.parts.items()},
        "logs": {own(key): item.name.t for key, item in snapshot.listing.items()},
        "stones": {own(p): t for p, t in snapshot.log_tombstones.items()},
        "deletes": snapshot.deletes,
        "changes": snapshot.changes,
        "other": snapshot.other,
        "schema": dict(snapshot.schema),
        "seq": snapshot.seq,
        "purged": snapshot.purged,
    }


@pytest.mark.long
def test_a_renamed_table_is_the_one_that_it_was(tmp_path: Path) -> None:
    world = lived(tmp_path)
    before, ids, headers = state(world), visible_ids(world.table), history(world.table)
    renamed = copied(world, "new", rename=True)
    with pytest.raises(ForeignPathError, match="firnline relocate"):
        state(renamed)
    report = relocate(renamed)
    assert report.plan["from"] == "t"
    assert facts(state(renamed)) == facts(before)
    assert visible_ids(renamed.table) == ids
    assert [replace_log(h) for h in history(renamed.table)] == [replace_log(h) for h in headers]
    assert v1_live(renamed) == state(renamed).live.keys()
    found = run_verify(Work(renamed.table), VerifyOptions(deep=True))
    assert found.healthy, found.findings


def replace_log(header: txn_file.TxnHeader) -> txn_file.TxnHeader:
    return msgspec.structs.replace(header, log=header.log.rpartition("/")[2])


@pytest.mark.long
@pytest.mark.parametrize("merged", [False, True])
def test_nobody_appends_before_it(tmp_path: Path, merged: bool) -> None:
    world = filled()
    if merged:
        merge(world, tmp_path)
    copy = copied(world)
    with pytest.raises(ForeignPathError, match="firnline relocate"):
        append(copy, 100)
    relocate(copy)
    append(copy, 100)
    assert sum(visible_ids(copy.table).values()) == 30


@pytest.mark.long
def test_it_lives_on_and_leaves_the_original_alone(tmp_path: Path) -> None:
    world = lived(tmp_path)
    copy = copied(world)
    original = {k: v for k, v in world.store.objects.items() if k.startswith("t/")}
    relocate(copy)
    ids = visible_ids(copy.table)
    merge(copy, tmp_path)
    histories.clean_up(copy)
    append(copy, 100)
    assert visible_ids(copy.table) == ids + Counter(range(100, 106))
    found = run_verify(Work(copy.table), VerifyOptions(deep=True))
    assert found.healthy, found.findings
    assert {k: v for k, v in world.store.objects.items() if k.startswith("t/")} == original


def test_a_table_at_the_root_of_its_bucket_and_back() -> None:
    world = filled()
    before = facts(state(world))
    for old, new in (("t", ""), ("", "deep/er/place")):
        moved = replace(world, table=replace(world.table))
        moved = _moved(world, old, new)
        relocate(moved)
        assert facts(state(moved)) == before
        world = moved


def _moved(world: World, old: str, new: str) -> World:
    from firnline.paths import TablePaths

    start, put = (f"{name}/" if name else "" for name in (old, new))
    for key in list(world.store.objects):
        world.store.objects[put + key.removeprefix(start)] = world.store.objects.pop(key)
    root = f"memory://bucket/{new}".rstrip("/")
    settings = world.settings.model_copy(update={"root": root})
    return replace(
        world,
        settings=settings,
        table=replace(world.table, settings=settings, paths=TablePaths(new)),
    )


def test_a_table_of_this_place_is_refused_and_so_is_no_table() -> None:
    world = filled()
    before = dict(world.store.objects)
    with pytest.raises(UsageError, match="nothing to do"):
        relocate(world)
    with pytest.raises(UsageError, match="no table"):
        relocate(make_world())
    assert world.store.objects == before


def test_a_place_without_the_parts_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    copy = copied(lived(tmp_path))
    lost = sorted(p.replace("t/", "copy/", 1) for p in _live(copy))[3]
    data = copy.store.objects.pop(lost)
    before = dict(copy.store.objects)
    with pytest.raises(UsageError, match=f"1 of .* live parts are not .* {lost} is the first"):
        relocate(copy)
    copy.store.objects[lost] = (data[0][:-1], data[1])
    with pytest.raises(UsageError, match=f"part {lost} has"):
        relocate(copy)
    del copy.store.objects[lost]
    assert copy.store.objects == before


@pytest.mark.long
def test_a_copy_without_its_transactions_is_refused(tmp_path: Path) -> None:
    """Deletes would hide the rows of the next append, which takes its number from there."""
    copy = copied(lived(tmp_path))
    for key in [k for k in copy.store.objects if k.startswith("copy/_txn/")]:
        del copy.store.objects[key]
    before = dict(copy.store.objects)
    with pytest.raises(UsageError, match=r"there is no copy/_txn/0+3\.jsonl; copy the whole table"):
        relocate(copy)
    assert copy.store.objects == before


def _live(copy: World) -> set[str]:
    original = replace(copy, table=replace(copy.table, paths=type(copy.table.paths)("t")))
    return set(state(original).live)


def test_objects_of_two_places_are_refused_by_both_names(tmp_path: Path) -> None:
    world = filled()
    copy = copied(world)
    relocate(copy)
    append(copy, 50)
    third = copied(copied(world, "third"), "third")
    key = next(k for k in copy.store.objects if k.startswith("copy/_log/"))
    data = copy.store.objects[key]
    third.store.objects["third/_log/1700000999999_x-" + key[-42:]] = data
    before = dict(third.store.objects)
    with pytest.raises(UsageError) as raised:
        relocate(third)
    assert "a table at t" in str(raised.value) or "one at t" in str(raised.value)
    assert "at copy" in str(raised.value)
    with pytest.raises(UsageError, match="another place than t"):
        relocate(third, old="t")
    assert third.store.objects == before


def test_the_old_place_may_be_said_by_prefix_or_root() -> None:
    world = filled()
    for name, old in (("one", "t"), ("two", "memory://bucket/t")):
        copy = copied(world, name)
        with pytest.raises(UsageError, match="another place than"):
            relocate(copy, old="elsewhere")
        relocate(copy, old=old)
        assert len(state(copy).live) == 8


@pytest.mark.long
def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    copy = copied(lived(tmp_path))
    before = dict(copy.store.objects)
    report = relocate(copy, dry_run=True)
    assert copy.store.objects == before
    assert report.plan["from"] == "t"
    assert report.plan["to"] == "copy"
    assert report.plan["parts"] == len(_live(copy))


def test_what_nobody_knows_yet_stays_as_it_is() -> None:
    """Keys of markers, extension records and header fields of later versions."""
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world)
    later = b'{"later":{"source":"t/_data/","n":12345678901234567890,"f":1.50}}'
    for key in [k for k in world.store.objects if k.startswith(("t/_log/", "t/_txn/"))]:
        data, at = world.store.objects[key]
        changed = _enriched_txn(data, later) if "/_txn/" in key else enriched(data, later)
        world.store.objects[key] = (changed, at)
    original = {k: v for k, v in world.store.objects.items() if k.startswith("t/")}
    copy = copied(sized(world))
    relocate(copy)
    assert later in state(copy).other
    assert all(m.unknown().keys() == {"zz"} for m in state(copy).parts.values())
    for key, (data, _) in original.items():
        if "/_log/" in key or "/_txn/" in key:
            moved = world.store.objects[key.replace("t/", "copy/", 1)][0]
            kept = data.replace(later, b"(later)").split(b"\n")
            put = moved.replace(later, b"(later)").split(b"\n")
            assert _without_sums(_moved_keys(kept)) == _without_sums(put)


def _moved_keys(lines: list[bytes]) -> list[bytes]:
    moved = [line.replace(b'"log":"t/', b'"log":"copy/') for line in lines]
    return [
        line.replace(b'{"p":"t/_', b'{"p":"copy/_', 1) if line.startswith(b'{"p":') else line
        for line in moved
    ]


def _without_sums(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if not line.startswith(b'{"sum":')]


def _enriched_txn(data: bytes, record: bytes) -> bytes:
    head, _, log_file = data.split(b"\n", 2)
    head = head[:-1] + b',"later":{"append.ttl":"6h","x":[1,2.50]}}'
    return codec.seal(head, enriched(log_file, record))


def test_a_table_of_clients_of_version_1(tmp_path: Path) -> None:
    world = make_world()
    client = V1Client(world)
    for _ in range(2):
        client.append("d=1")
    client.append("d=2")
    client.merge("d=1")
    client.append("d=1")
    before = state(world)
    copy = copied(sized(world))
    relocate(copy)
    assert facts(state(copy)) == facts(before)
    assert V1Client(copy).live() == state(copy).live.keys()


def test_the_table_still_knows_its_properties(tmp_path: Path) -> None:
    """The birth record, too, which no transaction has stated yet."""
    world = filled(1, append={"ttl": "2h"}, primary_key=["id"])
    copy = copied(world)
    relocate(copy)
    bare = TableSettings.model_validate({"name": "x", "root": "memory://bucket/copy"})
    found = take_base(replace(copy.table, settings=bare)).properties
    assert found is not None
    assert (found.append_ttl, found.primary_key) == (7_200_000, ("id",))
    moved = birth.decode("b", copy.store.objects[copy.table.paths.birth][0])
    assert moved.log in state(copy).listing
    assert moved.properties == found
    data = world.store.objects[world.table.paths.birth][0]
    assert copy.store.objects[copy.table.paths.birth][0] == data.replace(b'"t/_log', b'"copy/_log')


@pytest.mark.parametrize("folder", ["_log", "_txn"])
def test_a_table_that_was_downgraded_is_relocated(folder: str) -> None:
    """Its birth record names a log file; that of an older version the newest transaction."""
    world = filled(1)
    key = world.table.paths.birth
    known = birth.decode(key, world.store.objects[key][0])
    named = msgspec.structs.replace(known, log=f"t/{folder}/7.jsonl", seq=7)
    world.store.objects[key] = (birth.encode(named), world.clock.now)
    copy = copied(world)
    relocate(copy)
    moved = birth.decode(key, copy.store.objects[copy.table.paths.birth][0])
    assert (moved.log, moved.seq) == (f"copy/{folder}/7.jsonl", 7)


def test_checkpoints_of_the_old_place_go() -> None:
    world = make_world(checkpoint={"min_parts": 1})
    for _ in range(3):
        do_merge(world, put_append(world) + put_append(world))
    copy = copied(sized(world))
    assert any(k.startswith("copy/_ckpt/") for k in copy.store.objects)
    relocate(copy)
    assert not any(k.startswith("copy/_ckpt/") for k in copy.store.objects)
    assert any(k.startswith("t/_ckpt/") for k in copy.store.objects)
    assert len(read_snapshot(copy.store, copy.table.paths, checkpoint_above=0).live) == 3


def test_an_erase_is_completed_in_the_new_place(tmp_path: Path) -> None:
    world = filled()
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    options = EraseOptions(columns=("name",), keys=(("n3",),))
    run_erase(Work(world.table, RUN, lambda: engine), options)
    renamed = copied(world, "new", rename=True)
    relocate(renamed)
    renamed.clock.advance(4 * 86_400_000)
    (one,) = list_certificates(renamed.table)
    done = complete_certificate(renamed.table, one.id, RUN)
    assert done.status == "complete"
    assert all(part.gone_ms for part in done.parts)
    assert done.root == world.settings.root


def test_a_damaged_log_file_is_named_and_nothing_is_written() -> None:
    copy = copied(filled())
    key = next(k for k in copy.store.objects if k.startswith("copy/_log/"))
    data, at = copy.store.objects[key]
    copy.store.objects[key] = (data.replace(b'"n":', b'"n": ', 1), at)
    before = dict(copy.store.objects)
    with pytest.raises(LogCorruptError, match=key):
        relocate(copy)
    assert copy.store.objects == before


@pytest.mark.long
def test_a_transaction_that_was_not_published_is_published_in_the_new_place(
    tmp_path: Path,
) -> None:
    world = filled()
    histories.dies_at(world, "put t/_log/", "before", lambda s: merge(world, tmp_path, s))
    copy = copied(world)
    relocate(copy)
    base = take_base(copy.table)
    assert base.seq == 1
    assert len(base.snapshot.live) == 2


def test_requests_are_those_of_the_documentation() -> None:
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world)
    copy = copied(sized(world))
    report = relocate(copy)
    # 4 log files and 1 transaction, each read twice; the question for a clone.
    assert report.requests["list"] == 5
    assert report.requests["get"] == 2 * 5 - 2 + 1 + 2
    assert report.requests["put"] == 5
    assert report.requests["delete"] == 0


@pytest.mark.long
def test_progress_is_told() -> None:
    world = make_world()
    for _ in range(230):
        put_append(world)
    told: list[RelocateProgress] = []
    run_relocate(Work(copied(sized(world)).table, tell=told.append), RelocateOptions())
    assert [(p.objects_done, p.objects) for p in told] == [(n, 230) for n in range(10, 231, 10)]


@pytest.mark.parametrize("by_root", [False, True])
def test_a_run_that_stood_still_brings_no_log_file_back(by_root: bool) -> None:
    """It fetched one, slept for days, and clean-up has deleted that one since.

    How long it may sleep the table says, whatever the settings are.
    """
    world = make_world(cleanup={"grace": "10m"})
    do_merge(world, put_append(world) + put_append(world))
    copy = copied(sized(world))
    store = copy.store

    class Sleepy(type(store)):  # type: ignore[misc] # a class of the test's own
        slept = False
        left: frozenset[str] = frozenset()

        def get(self, key: str) -> bytes:
            data = store.get(key)
            if not self.slept and "/_log/" in key and self.counters.put >= 1:
                Sleepy.slept = True
                relocate(copy)
                store.clock.advance(copy.settings.cleanup.grace + 1000)
                run_cleanup(Work(copy.table, RUN), CleanupOptions())
                Sleepy.left = frozenset(store.objects)
            return data

    sleepy = Sleepy(store.clock)
    sleepy.objects = store.objects
    settings = settings_for_root(copy.settings.root) if by_root else copy.settings
    table = replace(copy.table, store=sleepy, settings=settings)
    with pytest.raises(Exception, match="stood still"):
        run_relocate(Work(table), RelocateOptions())
    assert store.objects.keys() == Sleepy.left
    assert state(copy).live


def test_a_run_that_slept_before_its_put_says_that_the_object_may_be_back() -> None:
    world = make_world(cleanup={"grace": "10m"})
    do_merge(world, put_append(world) + put_append(world))
    copy = copied(sized(world))
    sleeps = partial(copy.store.clock.advance, copy.settings.cleanup.grace)
    logs = [key for key in copy.store.objects if key.startswith("copy/_log/")]
    # The last is written alone: another one under way would be refused before it is written.
    store = Asleep(copy.store, at="put copy/_log/", meanwhile=sleeps, skip=len(logs) - 1)
    with pytest.raises(SnapshotUnstableError, match="may be back although clean-up had deleted"):
        run_relocate(Work(replace(copy.table, store=store)), RelocateOptions())
    with pytest.raises(NothingToDoError, match="already"):
        relocate(copy)
    assert state(copy).live


def test_a_plan_that_slept_does_not_miss_what_a_clean_up_has_deleted_since() -> None:
    """Another run has relocated the table meanwhile, and it was merged."""
    world = make_world(cleanup={"grace": "10m"})
    keys = put_append(world) + put_append(world)
    copy = copied(sized(world))

    def relocated() -> None:
        relocate(copy)
        do_merge(copy, [key.replace("t/", "copy/", 1) for key in keys])
        histories.clean_up(copy)

    store = Asleep(copy.store, at="list copy/_data/", meanwhile=relocated)
    with pytest.raises(NothingToDoError, match="already"):
        run_relocate(Work(replace(copy.table, store=store)), RelocateOptions())
