"""What a certificate waits for and what it deletes: of dead runs, and when it is asked late."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.erase import leftovers
from firnline.operations.erase import run as erasing
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.digests import sealed
from firnline.operations.erase.proof import ShownKeys
from firnline.operations.erase.run import EraseReport, preview, run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    EraseOptions,
    MergeOptions,
    RewriteOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.prepared import objects
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.store.upload import Upload
from tests.support.log_tables import do_nothing, snapshot
from tests.support.traces import traces
from tests.support.world import Crashed, Fault, FaultyStore, World, make_world

RUN = RunIdentity(run_id="r")
HOUR = 3_600_000
DAY = 24 * HOUR
KEY = "needle-17"


def engine(world: World, scratch: Path) -> Any:
    return lambda: LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


def append(world: World, **columns: list[Any]) -> None:
    world.clock.advance(10)
    Appender(world.table).append(pa.table(columns))


def erase(world: World, scratch: Path) -> EraseReport:
    asked = EraseOptions(columns=("c",), keys=((KEY,),))
    return run_erase(Work(world.table, RUN, engine(world, scratch)), asked)


def certify(world: World, report: EraseReport, shown: ShownKeys | None = None) -> Certificate:
    assert report.certificate is not None
    return complete_certificate(world.table, report.certificate, RUN, shown)


def kinds(found: Certificate) -> set[str]:
    return {entry.kind for entry in found.remaining if entry.blocks}


def tidy(world: World) -> None:
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    run_sweep(Work(world.table, RUN), SweepOptions())


def keyed(**settings: Any) -> World:
    world = make_world(**settings)
    append(world, c=[KEY, "z"], p=["a", "b"], k=[1, 2])
    return world


def beside_the_log(world: World) -> dict[str, set[str]]:
    found = traces(world.store.objects, KEY)
    return {k: forms for k, forms in found.items() if not k.startswith(("t/_log", "t/_txn"))}


def die_at(world: World, scratch: Path, what: str) -> None:
    """Erase, and die after the first request of an object."""

    class Dying(FaultyStore):
        def _next(self, name: str) -> str:
            if what in name and self.fault is None:
                self.fault = Fault(len(self.calls), "after")
            return super()._next(name)

    asked = EraseOptions(columns=("c",), keys=((KEY,),))
    table = replace(world.table, store=Dying(world.store))
    with pytest.raises(Crashed):
        run_erase(Work(table, RUN, engine(world, scratch)), asked)


@pytest.mark.long
def test_keys_of_a_dead_run_go_before_the_certificate_of_another_is_complete(
    tmp_path: Path,
) -> None:
    world = keyed(cleanup={"grace": "1h"}, append={"ttl": "1h"}, commit_ttl="3h")
    die_at(world, tmp_path, ".keys.parquet")
    (left,) = [key for key in world.store.objects if key.endswith(".keys.parquet")]
    report = erase(world, tmp_path)
    world.clock.advance(2 * HOUR)
    found = certify(world, report)
    assert (found.status, kinds(found)) == ("waiting", {"keys file"})
    (entry,) = [entry for entry in found.remaining if entry.kind == "keys file"]
    assert entry.objects == (left,)
    assert "might still commit" in entry.why
    assert entry.until_ms is not None
    assert world.clock.now < entry.until_ms < world.clock.now + 3 * HOUR
    world.clock.advance(3 * HOUR)
    assert certify(world, report).status == "complete"
    assert beside_the_log(world) == {}


class Server:
    """The uploads of a bucket."""

    def __init__(self, *uploads: Upload) -> None:
        self.uploads = set(uploads)

    def list(self, prefix: str) -> list[Upload]:
        return [upload for upload in self.uploads if upload.key.startswith(prefix)]

    def list_free(self, prefixes: Iterable[str]) -> Iterator[Upload]:
        return chain.from_iterable(map(self.list, prefixes))

    def abort(self, upload: Upload) -> None:
        self.uploads.remove(upload)


def test_uploads_that_were_never_completed_are_aborted_or_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = keyed()
    keys = Upload("t/_erase/x.keys.parquet", "1", world.clock.now)
    part = Upload("t/_data/x.parquet", "2", world.clock.now)
    server = Server(keys, part)
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: server)
    report = erase(world, tmp_path)
    (entry,) = [entry for entry in certify(world, report).remaining if entry.kind == "upload"]
    assert set(entry.objects) == {keys.name, part.name}
    world.clock.advance(3 * DAY)
    found = certify(world, report)
    assert (found.status, server.uploads) == ("waiting", {part})
    server.abort(part)
    assert certify(world, report).status == "complete"


FOLDERS = ["_log", "_txn", "_ckpt", "_prepared", "_runs", "_delta_log", "_iceberg/metadata"]


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_a_killed_process_had_staged_in_any_folder_is_waited_for(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = keyed()
    server = Server(staged := Upload(f"t/{folder}/x", "#1", world.clock.now))
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: server)
    report = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    found = certify(world, report)
    (entry,) = [entry for entry in found.remaining if entry.kind == "upload"]
    assert (found.status, entry.objects) == ("waiting", (staged.name,))
    server.abort(staged)
    assert certify(world, report).status == "complete"


@pytest.mark.long
@pytest.mark.parametrize("died", ["decided", "before it was discarded"])
def test_a_prepared_change_without_parts_shows_no_row_under_a_complete_certificate(
    died: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = keyed(partition_by=["p"], rewrite={"max_removed_fraction": 1.0})
    asked = RewriteOptions(
        where="k > 100", partitions=("p=a",), force=True, prepare=True, samples=3
    )
    prepared = run_prepare(Work(world.table, RUN, engine(world, tmp_path)), asked).id
    assert prepared is not None
    if died == "decided":
        objects.decide(world.table, prepared, "commit", RUN)
    with monkeypatch.context() as patched:
        patched.setattr(erasing, "discard_changed", lambda *_: ())
        report = erase(world, tmp_path)
    world.clock.advance(DAY + 7 * HOUR)
    found = certify(world, report)
    assert (found.status == "waiting") == (died == "decided")
    assert not (found.status == "complete" and beside_the_log(world))
    for _ in range(3):
        tidy(world)
        do_nothing(world)
        world.clock.advance(10 * DAY)
    assert certify(world, report).status == "complete"
    assert beside_the_log(world) == {}


def test_nothing_of_a_certificate_has_the_name_of_a_partition(tmp_path: Path) -> None:
    world = keyed(partition_by=["c"])
    asked = EraseOptions(columns=("c",), keys=((KEY,),))
    assert KEY not in json.dumps(preview(world.table, asked).to_json())
    report = erase(world, tmp_path)
    assert not [k for k in traces(world.store.objects, KEY) if "/_erase/" in k]
    world.clock.advance(3 * DAY)
    found = certify(world, report)
    assert found.status == "complete"
    assert [part.rows for part in found.parts] == [1]
    assert all(part.gone_ms for part in found.parts)
    assert beside_the_log(world) == {}
    assert run_verify(Work(world.table), VerifyOptions()).healthy


def test_the_log_text_that_names_a_partition_after_a_key_is_named(tmp_path: Path) -> None:
    world = keyed(partition_by=["c"])
    report = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    named = {key for entry in certify(world, report).remaining for key in entry.objects}
    holding = traces(world.store.objects, KEY).keys()
    assert holding
    assert holding <= named


def test_a_delete_by_the_key_before_the_erase_is_named_as_text_too(tmp_path: Path) -> None:
    world = keyed(deletes="lazy")
    run_delete(Work(world.table, RUN, engine(world, tmp_path)), DeleteOptions(where=f"c = '{KEY}'"))
    report = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    named = {key for entry in certify(world, report).remaining for key in entry.objects}
    assert {k for k in traces(world.store.objects, KEY) if "_txn" in k or "_log" in k} <= named


def forgotten(tmp_path: Path, *, late: bool = False) -> tuple[World, EraseReport]:
    """An erase whose record has left the log, and that nobody has asked about; parts beside it."""
    world = keyed(partition_by=["p"], statistics=["c"])
    append(world, c=["zz"], p=["z"], k=[900])
    reports = []

    def rows() -> Any:
        yield from pa.table({"c": ["a"], "p": ["x"], "k": [7]}).to_batches()
        reports.append(erase(world, tmp_path))

    if late:
        Appender(world.table).append(rows())
    else:
        reports.append(erase(world, tmp_path))
    for number in range(12):  # the fence has passed the record before it leaves the log
        run_cleanup(Work(world.table, RUN), CleanupOptions())
        append(world, c=["n"], p=["b"], k=[number])
        asked = DeleteOptions(where=f"k = {number}", partitions=("p=b",))
        run_delete(Work(world.table, RUN, engine(world, tmp_path)), asked)
        world.clock.advance(25 * HOUR)
    erased = snapshot(world).deletes.values()
    assert not [d for d in erased if KEY in bytes(d.where).decode()]
    return world, reports[0]


@pytest.mark.long
def test_a_certificate_that_is_asked_late_knows_the_parts_that_statistics_had_excluded(
    tmp_path: Path,
) -> None:
    world, report = forgotten(tmp_path)
    assert certify(world, report).status == "complete"


@pytest.mark.long
def test_of_an_append_that_landed_beside_the_erase_the_shown_keys_decide(tmp_path: Path) -> None:
    world, report = forgotten(tmp_path, late=True)
    found = certify(world, report)
    assert (found.status, kinds(found)) == ("waiting", {"late part"})
    path = tmp_path / "keys.csv"
    path.write_text(f"c\n{KEY}\n")
    assert report.secret is not None
    assert certify(world, report, ShownKeys(str(path), report.secret)).status == "complete"


@pytest.mark.long
def test_another_erase_of_the_same_keys_counts_though_its_digest_is_another(
    tmp_path: Path,
) -> None:
    world = keyed(statistics=["c"])
    first, second = erase(world, tmp_path), erase(world, tmp_path)
    certificates = [certify(world, each) for each in (first, second)]
    assert certificates[1].covers == certificates[0].deletes
    assert certificates[0].covers == ()


def test_the_plan_of_a_clone_that_died_at_its_end_is_waited_for(tmp_path: Path) -> None:
    world = keyed()
    world.store.objects[world.table.paths.clone_plan] = (b"{}", world.clock.now)
    report = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    assert kinds(certify(world, report)) == {"clone plan"}
    del world.store.objects[world.table.paths.clone_plan]
    assert certify(world, report).status == "complete"


def test_a_certificate_of_version_1_is_completed_as_before(tmp_path: Path) -> None:
    world = keyed(partition_by=["p"])
    report = erase(world, tmp_path)
    found = certify(world, report)
    keys = {key.rpartition("/")[2]: key for key in world.store.objects if "/_data/" in key}
    parts = tuple(msgspec.structs.replace(p, key=keys[p.key], partition="p=a") for p in found.parts)
    checked = tuple(name for name in keys if name not in {p.key for p in found.parts})
    old = msgspec.structs.replace(
        found, version=1, parts=parts, checked=checked, clean="", covers=(), remaining=()
    )
    plain = msgspec.to_builtins(sealed(old, world.table.paths))
    for name in ("clean", "covers"):
        del plain[name]
    key = world.table.paths.certificate(found.id)
    world.store.objects[key] = (msgspec.json.encode(plain), world.clock.now)
    world.clock.advance(3 * DAY)
    done = certify(world, report)
    assert done.status == "complete"
    assert [part.key for part in done.parts] == [part.key for part in parts]
    assert all(part.gone_ms for part in done.parts)


@pytest.mark.long
@pytest.mark.parametrize("hours", [1, 6, 12, 24, 25, 36])
def test_the_keys_leave_the_log_however_often_the_table_is_maintained(
    hours: int, tmp_path: Path
) -> None:
    """Each fold carries the record on; the oldest log file that has it says how old it is."""
    world = keyed(merge={"min_inputs": 2})
    erase(world, tmp_path)
    for number in range(100 // hours + 1):
        append(world, c=["n"], p=["b"], k=[number])
        run_merge(Work(world.table, RUN, engine(world, tmp_path)), MergeOptions())
        world.clock.advance(1_000)
        run_cleanup(Work(world.table, RUN), CleanupOptions())
        world.clock.advance(hours * HOUR)
    assert snapshot(world).deletes == {}
