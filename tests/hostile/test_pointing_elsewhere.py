"""Markers, log tombstones, certificates and approvals that name what the table does not own.

Whoever can write below a table's prefix can make it unreadable. It must not be a way to make
firnline, with its own credentials, read or delete anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firnline.commit.base import take_base
from firnline.errors import FirnlineError
from firnline.ids import format_uuid7
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.drop.run import run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DowngradeOptions,
    DropOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    RewriteOptions,
    SweepOptions,
    TtlOptions,
    VerifyOptions,
)
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.rewrite.run import run_rewrite
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.store.client import open_store
from firnline.table import Table
from tests.support.engines import CountingEngine
from tests.support.hostile import RecordingStore, reading, refusal
from tests.support.log_tables import do_merge, do_nothing, put_append, snapshot
from tests.support.world import START_MS, SetClock, World, make_world

RUN = RunIdentity(run_id="r")
YEAR = 365 * 86_400_000
ELSEWHERE = [
    "other/_data/d=1/a.parquet",
    "t2/_data/d=1/a.parquet",
    "t-copy/_data/d=1/a.parquet",
    "_data/d=1/a.parquet",
    "T/_data/d=1/a.parquet",
    "t/_DATA/d=1/a.parquet",
    " t/_data/d=1/a.parquet",
    "/t/_data/d=1/a.parquet",
    "//t/_data/d=1/a.parquet",
    "./t/_data/d=1/a.parquet",
    "s3://bucket/t/_data/d=1/a.parquet",
    "s3://other-bucket/t/_data/d=1/a.parquet",
    "file:///etc/passwd",
    "/etc/passwd",
    "../../etc/passwd",
    "t/_data/../../other/_data/d=1/a.parquet",
    "t/_data/d=1/../../_log/x.jsonl",
    "t/_data/..",
    "t/_data/.",
    "t/_data/./a.parquet",
    "t/_data/d=1/",
    "t/_data/",
    "t/_data",
    "t/",
    "t",
    "",
    "t/_txn/00000000000000000001.jsonl",
    "t/_erase/x.json",
    "t/_probe/x",
    "t%2F_data/d=1/a.parquet",
    "t\\_data\\d=1\\a.parquet",
    "t/_data/d=1/a\0.parquet",
    "t/_data/d=1/a\n.parquet",
    "t/_data/d=1\r/a.parquet",
    "t/_data/d=1/\x1b[2J.parquet",
    "t/_data/d=1/a\x7f.parquet",
    "t\0/_data/d=1/a.parquet",
]


def world_of_two() -> World:
    """A table with a past, and another one in the same bucket."""
    world = make_world()
    store = RecordingStore(world.clock)
    world.store = store
    object.__setattr__(world.table, "store", store)
    do_merge(world, put_append(world, "d=1") + put_append(world, "d=1"))
    put_append(world, "d=2")
    for key in ELSEWHERE:
        if key and not key.endswith("/"):
            store.objects.setdefault(key, (b"somebody else's", world.clock.now))
    store.objects = {k: v for k, v in store.objects.items() if not k.startswith("t/_txn/x")}
    world.clock.advance(3 * 86_400_000)
    return world


def recorded(world: World) -> RecordingStore:
    assert isinstance(world.store, RecordingStore)
    return world.store


def v1_log(
    world: World, *lines: dict[str, Any], tombstones: tuple[dict[str, Any], ...] = ()
) -> str:
    """What anybody may write: a log file without a checksum. Returns its key."""
    header: dict[str, Any] = {"v": 1, "t": 1, "sch": 1, "f": 2 + len(tombstones)}
    if tombstones:
        header["tmb"] = 2
    schema = {"ts": "TIMESTAMP", "v": "INTEGER"}
    text = "\n".join(json.dumps(line) for line in (header, schema, *tombstones, *lines))
    key = f"t/_log/{START_MS + 5}_intruder.jsonl"
    world.store.objects[key] = (text.encode(), START_MS)
    return key


def marker(key: str, **more: Any) -> dict[str, Any]:
    return {"p": key, "b": 15, "t": START_MS, **more}


def operations(world: World) -> dict[str, Callable[[], object]]:
    """Everything that can be asked of a table."""
    table, engine = world.table, partial(CountingEngine, world)
    return {
        "merge": lambda: run_merge(Work(table, RUN, engine), MergeOptions()),
        "cleanup": lambda: run_cleanup(Work(table, RUN), CleanupOptions()),
        "sweep": lambda: run_sweep(Work(table, RUN), SweepOptions()),
        "drop": lambda: run_drop(Work(table, RUN), DropOptions(partitions=("d=1", "d=2"))),
        "ttl": lambda: run_ttl(Work(table, RUN), TtlOptions()),
        "delete": lambda: run_delete(Work(table, RUN, engine), DeleteOptions(where="v < 3")),
        "rewrite": lambda: run_rewrite(Work(table, RUN, engine), RewriteOptions(where="v < 3")),
        "erase": lambda: run_erase(
            Work(table, RUN, engine), EraseOptions(columns=("v",), keys=((1,),))
        ),
        "downgrade": lambda: run_downgrade(Work(table, RUN, engine), DowngradeOptions()),
        "rebuild": lambda: run_rebuild(Work(table, RUN), RebuildOptions(force=True)),
        "snapshot": lambda: snapshot(world),
    }


def unchanged(world: World, before: dict[str, Any]) -> None:
    """Nothing was deleted or written, and nothing read but what says what the table is."""
    store = recorded(world)
    assert store.deleted == []
    assert store.objects == before
    assert all(key.startswith(("t/_log/", "t/_txn/", "t/_erase/")) for key in store.read)


@pytest.mark.parametrize("key", ELSEWHERE)
@pytest.mark.parametrize("state", ["alive", "dead"])
def test_a_marker_that_points_elsewhere_stops_every_operation_before_it_reads_or_deletes(
    key: str, state: str
) -> None:
    world = world_of_two()
    log = v1_log(world, marker(key, **({"tmb": START_MS + 1} if state == "dead" else {})))
    before = dict(world.store.objects)
    recorded(world).forget()
    for name, run in operations(world).items():
        error = refusal(log, run)
        assert "\0" not in repr(str(error)), name
        unchanged(world, before)
    report = run_verify(Work(world.table), VerifyOptions())
    assert any(log in str(finding) for finding in report.findings)
    unchanged(world, before)


LOGS_ELSEWHERE = [
    "other/_log/1_x.jsonl",
    "t2/_log/1_x.jsonl",
    "t/_data/d=1/a.parquet",
    "t/_txn/00000000000000000001.jsonl",
    "t/_log/../_txn/00000000000000000001.jsonl",
    "t/_log/../../other/_log/1_x.jsonl",
    "t/_log/",
    "t/_log",
    "/t/_log/1_x.jsonl",
    "s3://other/t/_log/1_x.jsonl",
    "t/_log//1_x.jsonl",
    "t/_log/1_x\0.jsonl",
    "t/_log/1_x\n.jsonl",
    "",
]


@pytest.mark.parametrize("key", LOGS_ELSEWHERE)
def test_a_log_tombstone_that_points_elsewhere_stops_every_operation(key: str) -> None:
    world = world_of_two()
    log = v1_log(world, tombstones=({"p": key, "t": START_MS},))
    before = dict(world.store.objects)
    recorded(world).forget()
    for run in operations(world).values():
        refusal(log, run)
        unchanged(world, before)


OWNED = ("t/_log/", "t/_data/", "t/_txn/", "t/_probe/", "t/_erase/")


def test_a_tombstone_of_a_log_file_that_nobody_carries_deletes_nothing() -> None:
    """Written by an intruder, or by a client that folded and forgot half of it."""
    world = world_of_two()
    live = set(snapshot(world).live)
    logs = [key for key in world.store.objects if key.startswith("t/_log/")]
    strange = "t/_log/notes.txt"
    below = "t/_log/sub/1_x.txt"
    for key in (strange, below):
        world.store.objects[key] = (b"notes", START_MS)
    named = [*logs, strange, below, "t/_log/1_nothing.jsonl"]
    v1_log(world, tombstones=tuple({"p": key, "t": START_MS} for key in named))
    for _ in range(3):
        world.clock.advance(YEAR)
        reading("", run_cleanup, Work(world.table, RUN), CleanupOptions())
        assert set(snapshot(world).live) == live
    assert strange in world.store.objects
    assert below in world.store.objects
    assert all(key.startswith(OWNED) for key in recorded(world).deleted)


@pytest.mark.parametrize("state", ["alive", "dead"])
def test_the_tables_own_files_named_as_parts_within_data_are_no_way_out(state: str) -> None:
    """Keys that look like an escape and are none: they name objects below ``_data/``."""
    inside = [
        "t/_data/%2e%2e/%2e%2e/other/_data/d=1/a.parquet",
        "t/_data/..%2F..%2Fother",
        "t/_data/..\\..\\other",
        "t/_data/.../a.parquet",
        "t/_data/t/_log/1_x.jsonl",
        "t/_data/s3:/other/_data/a.parquet",
        "t/_data/*.parquet",
        "t/_data/d=1/?uploadId=x",
        "t/_data/" + "x" * 3_000,
    ]
    world = world_of_two()
    others = {key for key in world.store.objects if not key.startswith(OWNED)}
    dead = {"tmb": START_MS + 1} if state == "dead" else {}
    v1_log(world, *(marker(key, **dead) for key in inside))
    world.clock.advance(YEAR)
    for run in operations(world).values():
        reading("", run)
    assert others <= world.store.objects.keys()
    assert all(key.startswith(OWNED) for key in recorded(world).deleted)
    assert all(key.startswith(OWNED) for key in recorded(world).read)


@pytest.mark.parametrize(
    "key", ["%2e%2e/%2e%2e/canary", "..%2f..%2fcanary", "..\\..\\canary", "%2Fcanary", "..."]
)
def test_escapes_in_a_key_do_not_leave_the_folder_of_a_table_on_disk(
    tmp_path: Path, key: str
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "store" / "t" / "_log").mkdir(parents=True)
    for place in (canary, tmp_path / "store" / "canary", tmp_path / "store" / "t" / "canary"):
        place.write_text("somebody else's")
    world = make_world(f"file://{tmp_path}/store/t")
    table = Table(
        world.settings,
        open_store(world.settings.root),
        world.table.paths,
        SetClock(START_MS + YEAR),
        world.ids,
    )
    line = json.dumps(marker(f"t/_data/{key}", tmb=START_MS + 1))
    text = f'{{"v":1,"t":1,"sch":1,"f":2}}\n{{"v":"INTEGER"}}\n{line}'
    (tmp_path / "store" / "t" / "_log" / f"{START_MS}_x.jsonl").write_text(text)
    assert "somebody" not in str(reading("", table.store.get, f"t/_data/{key}"))
    # By the clock of the machine the log file is new: what a clean-up does is asked for directly.
    assert len(list(table.store.delete_many([f"t/_data/{key}"]))) == 1
    reading("", run_cleanup, Work(table, RUN), CleanupOptions())
    for place in (canary, tmp_path / "store" / "canary", tmp_path / "store" / "t" / "canary"):
        assert place.read_text() == "somebody else's"


def test_a_sweep_deletes_no_approved_key_that_is_not_an_orphan_of_the_table() -> None:
    world = world_of_two()
    live = next(iter(snapshot(world).live))
    orphan = "t/_data/d=9/" + format_uuid7(START_MS - YEAR, 1) + ".parquet"
    world.store.objects[orphan] = (b"rows", START_MS - YEAR)
    do_nothing(world)
    world.clock.advance(YEAR)
    approved = (*ELSEWHERE, *LOGS_ELSEWHERE, live, orphan)
    before = set(world.store.objects)
    report = run_sweep(Work(world.table, RUN), SweepOptions(approved=approved))
    mine = {key for key in approved if key in before and key.startswith(("t/_data/", "t/_probe/"))}
    deleted = set(recorded(world).deleted)
    assert deleted & before == mine - {live}
    assert {key.rpartition("/")[0] for key in deleted - before} <= {"t/_probe"}, "its own"
    assert orphan in recorded(world).deleted
    assert report.gone == len(set(approved) - mine | {live})
    assert live in world.store.objects


def certificate(world: World, *parts: str, **more: Any) -> str:
    """An object that says an erase replaced these parts."""
    erase = format_uuid7(START_MS, 77)
    said = {
        "id": erase,
        "status": "waiting",
        "table": "t",
        "root": "memory://bucket/t",
        "columns": ["v"],
        "keys": 1,
        "digest": "0" * 64,
        "run": {},
        "planned_ms": START_MS,
        "deletes": [],
        "parts": [{"key": key, "partition": "", "rows": 1, "bytes": 1} for key in parts],
        "checked": [],
        "replaced": {"seq": 99, "t": START_MS},
        **more,
    }
    world.store.objects[f"t/_erase/{erase}.json"] = (json.dumps(said).encode(), START_MS)
    return erase


def test_a_forged_certificate_deletes_nothing_that_is_live_or_elsewhere() -> None:
    world = world_of_two()
    live = set(snapshot(world).live)
    named = [*ELSEWHERE, *live, *(key for key in world.store.objects if key.startswith("t/_log/"))]
    erase = certificate(world, *named)
    world.clock.advance(YEAR)
    others = {key for key in world.store.objects if not key.startswith(OWNED)}
    reading("", complete_certificate, world.table, erase, RUN)
    deleted = set(recorded(world).deleted)
    assert all(key.startswith(("t/_data/", "t/_erase/")) for key in deleted)
    assert live <= world.store.objects.keys()
    assert others <= world.store.objects.keys()
    assert set(snapshot(world).live) == live


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"id": 1}',
        '{"z":' + "[" * 50_000 + "]" * 50_000 + "}",
        '{"id": "\\ud800"}',
        "\xff",
    ],
)
def test_a_certificate_that_does_not_read_is_named(text: str) -> None:
    world = world_of_two()
    erase = certificate(world)
    key = f"t/_erase/{erase}.json"
    world.store.objects[key] = (text.encode("latin-1"), START_MS)
    refusal(key, complete_certificate, world.table, erase, RUN)
    assert recorded(world).deleted == []


@pytest.mark.parametrize("erase", ["../x", "x", "", "t/_log/x", "a\0b", format_uuid7(1, 1) + "/.."])
def test_no_id_of_a_certificate_reaches_another_object(erase: str) -> None:
    world = world_of_two()
    recorded(world).forget()
    refusal("", complete_certificate, world.table, erase, RUN)
    assert recorded(world).read == []


@pytest.mark.parametrize("name", ["9999999999999", "99999999999999", "9" * 19])
def test_a_log_file_from_the_end_of_time_is_named_before_anything_is_committed(name: str) -> None:
    """A transaction has to be later than every log file, and its own name has 13 digits."""
    world = world_of_two()
    log = f"t/_log/{name}_x.jsonl"
    world.store.objects[log] = world.store.objects.pop(v1_log(world))
    before = dict(world.store.objects)
    live = list(snapshot(world).live)
    error = refusal(log, do_merge, world, live)
    assert "move it" in error.next_step
    assert {k for k in world.store.objects if "/_data/" not in k} == {
        k for k in before if "/_data/" not in k
    }
    assert read_snapshot(world.store, world.table.paths).seq == take_base(world.table).seq


@pytest.mark.parametrize(
    "where",
    ['{"op":"like"}', '{"op":"=","column":"nothing","value":1}', "5", '{"op":"and","args":[]}'],
)
def test_a_delete_record_that_does_not_read_is_named_and_hides_no_part_silently(where: str) -> None:
    import msgspec

    from firnline.log import codec
    from firnline.log.records import Delete, LogContent

    world = world_of_two()
    record = Delete("the-record", 99, START_MS, msgspec.Raw(where.encode()))
    data = codec.encode(LogContent(t=START_MS, schema={"v": "INTEGER"}, deletes=[record]))
    world.store.objects[f"t/_log/{START_MS}_x.jsonl"] = (data, START_MS)
    state = snapshot(world)
    (live, *_) = state.live.values()
    with pytest.raises(FirnlineError, match="the-record"):
        state.pending_deletes(live, "d=1")
