"""Clean-up, certificates and the end of metadata respect the readers of a mirror in a catalog."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.mirror.iceberg import sweep as sweeping
from firnline.mirror.iceberg.catalog import open_catalog
from firnline.mirror.iceberg.head import read_head
from firnline.mirror.iceberg.publish import publish
from firnline.mirror.iceberg.shown import list_records, put_record, readers_of, superfluous
from firnline.mirror.iceberg.sweep import kept_ms, sweep
from firnline.mirror.retention import LONGEST_WAIT_MS
from firnline.operations.erase import leftovers
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.mirror.check import check_iceberg
from firnline.operations.mirror.run import run_mirror
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions, MirrorOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from tests.support.cleanups import GRACE, clean_up, keys_under
from tests.support.in_catalog import ROOT, catalog_world, drop, loaded
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.mirrors import RUN
from tests.support.world import World, make_world
from tests.unit.mirror.iceberg.test_in_catalog import foreign

SECRET = "4711083-a-value-that-nobody-else-has"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return catalog_world(tmp_path)


def parts(world: World) -> set[str]:
    return keys_under(world, "_data")


def settled(world: World) -> None:
    """Readers of the table itself are done with everything that is dead."""
    world.clock.advance(GRACE + 1_000)


def without_catalog(world: World) -> World:
    """The same table, for a process whose settings name no catalog."""
    settings = make_world(root=ROOT).settings
    return replace(world, table=replace(world.table, settings=settings))


@pytest.mark.long
def test_a_part_goes_when_a_snapshot_without_it_is_as_old_as_the_grace(world: World) -> None:
    old = put_append(world)
    publish(world.table)
    do_merge(world, old)
    settled(world)
    report = clean_up(world)
    assert (report.parts, old[0] in parts(world)) == (0, True)
    assert any("the Iceberg mirror shows them" in each.reason for each in report.waiting)
    publish(world.table)
    world.clock.advance(GRACE - 1_000)
    assert clean_up(world).parts == 0, "a reader may have begun right before that snapshot"
    world.clock.advance(1_000)
    assert clean_up(world).parts == 1
    assert parts(world) == set(snapshot(world).live)


@pytest.mark.long
def test_clean_up_asks_no_catalog_and_needs_no_settings_of_it(world: World) -> None:
    old = put_append(world)
    publish(world.table)
    do_merge(world, old)
    publish(world.table)
    drop(world)
    other = without_catalog(world)
    world.clock.advance(GRACE - 1_000)
    assert clean_up(other).parts == 0
    settled(world)
    assert clean_up(other).parts == 1


def test_what_died_before_the_mirror_began_does_not_wait_for_it(world: World) -> None:
    do_merge(world, put_append(world))
    settled(world)
    publish(world.table)
    assert clean_up(world).parts == 1


def test_a_table_that_was_never_published_is_cleaned_up_as_before(world: World) -> None:
    do_merge(world, put_append(world))
    settled(world)
    assert clean_up(world).parts == 1


def test_a_snapshot_whose_record_was_never_written_keeps_its_parts(world: World) -> None:
    old = put_append(world)
    publish(world.table)
    for record in list_records(world.store, world.table.paths).shown:
        del world.store.objects[record.key]  # the process died before it put the record
    do_merge(world, old)
    settled(world)
    assert clean_up(world).parts == 0
    publish(world.table)
    settled(world)
    assert clean_up(world).parts == 1


def test_nothing_waits_for_ever_for_a_mirror_that_nobody_publishes(world: World) -> None:
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    settled(world)
    report = clean_up(world)
    assert report.parts == 0
    assert "the Iceberg mirror shows transaction 1" in report.warnings[0]
    world.clock.advance(LONGEST_WAIT_MS)
    report = clean_up(world)
    assert report.parts == 1
    assert "1 part that it shows goes all the same" in report.warnings[0]


def test_a_record_that_lands_late_takes_nothing_back(world: World) -> None:
    store, paths = world.store, world.table.paths
    put_record(store, paths, 1, 100, begun=True)
    put_record(store, paths, 3, 300)
    world.clock.advance(10)
    put_record(store, paths, 2, 200)
    put_record(store, paths, 3, 300)  # the first date counts
    world.clock.advance(GRACE - 10)
    found = readers_of(store, paths, GRACE, world.clock.now)
    assert found is not None
    assert (found.until, found.seq) == (300, 3)
    assert readers_of(store, paths, GRACE + 1, world.clock.now).until == 100  # type: ignore[union-attr]


def test_records_that_clean_up_does_not_need_go_when_they_are_many(world: World) -> None:
    store, paths = world.store, world.table.paths
    for number in range(120):
        put_record(store, paths, number, number)
    records = list_records(store, paths)
    assert superfluous(records, GRACE, world.clock.now) == []
    gone = superfluous(records, GRACE, world.clock.now + GRACE)
    assert len(gone) == 119
    assert paths.iceberg_shown(119, 119) not in gone


def over(world: World) -> None:
    """Nobody uses metadata any more that the catalog has replaced."""
    world.clock.advance(kept_ms(GRACE) + 1_000)


def metadata(world: World) -> set[str]:
    return {k for k in world.store.objects if k.startswith(world.table.paths.iceberg_metadata_dir)}


def look_through(world: World) -> sweeping.Swept:
    opened = open_catalog(world.table)
    head = read_head(opened)
    assert head is not None
    return sweep(world.table, opened, head, GRACE)


@pytest.mark.long
def test_metadata_goes_when_no_reader_uses_it_and_parts_never(world: World) -> None:
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    stray = f"{world.table.paths.iceberg_metadata_dir}of-a-lost-race-m0.avro"
    world.store.put_new(stray, b"")
    before, held = metadata(world), parts(world)
    assert look_through(world).expired == 0
    over(world)
    put_append(world)
    publish(world.table)  # from here on nobody begins with the first two
    found = look_through(world)
    assert stray not in metadata(world)
    assert found.expired >= 3
    assert len(loaded(world).metadata.snapshots) == 2
    over(world)
    put_append(world)
    publish(world.table)
    look_through(world)
    assert len(before & metadata(world)) < 3
    assert held <= parts(world)
    assert check_iceberg(world.table).same


@pytest.mark.long
def test_metadata_that_was_replaced_a_grace_ago_goes_although_nothing_came_since(
    world: World,
) -> None:
    keys = put_append(world)
    publish(world.table)
    first = loaded(world).metadata_location
    do_merge(world, keys)
    publish(world.table)
    over(world)
    look_through(world)
    assert open_catalog(world.table).root.key_of(first) not in metadata(world)
    assert check_iceberg(world.table).same


@pytest.mark.long
def test_metadata_stays_a_while_although_the_file_of_what_replaced_it_is_as_old_as_the_grace(
    world: World,
) -> None:
    """The catalog may have named that file half a grace after it was written."""
    keys = put_append(world)
    publish(world.table)
    first = loaded(world).metadata_location
    do_merge(world, keys)
    publish(world.table)
    settled(world)
    look_through(world)
    assert open_catalog(world.table).root.key_of(first) in metadata(world)


@pytest.mark.long
def test_metadata_stays_as_long_as_the_table_says_whatever_the_settings_say(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "EVERY", 1)
    settings = world.settings.model_copy(
        update={"cleanup": world.settings.cleanup.model_copy(update={"grace": 1_000})}
    )
    hasty = replace(world.table, settings=settings)
    keys = put_append(world)
    run_mirror(Work(hasty, RUN), MirrorOptions())
    before = metadata(world)
    do_merge(world, keys)
    world.clock.advance(GRACE // 2)
    run_mirror(Work(hasty, RUN), MirrorOptions())
    assert before <= metadata(world)
    assert len(loaded(world).metadata.snapshots) == 2


def test_a_process_that_stood_still_writes_no_metadata_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_append(world)
    publish(world.table)
    put_append(world)
    written: list[str] = []
    real = world.store.put_new

    def put_new(key: str, data: bytes) -> None:
        real(key, data)
        if key.endswith("-m0.avro") and not written:
            world.clock.advance(GRACE)  # suspended right after its first manifest
            written.append(key.rpartition("/")[2].removesuffix("-m0.avro"))

    monkeypatch.setattr(world.store, "put_new", put_new)
    assert publish(world.table).written
    of_first = [key for key in metadata(world) if written[0] in key]
    assert len(of_first) == 1, "and the state was read again"
    assert check_iceberg(world.table).same


@pytest.mark.long
def test_every_hundredth_snapshot_looks_the_metadata_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "EVERY", 3)
    reports = []
    for _ in range(3):
        over(world)
        put_append(world)
        reports.append(run_mirror(Work(world.table, RUN), MirrorOptions()))
    assert [report.expired > 0 for report in reports] == [False, False, True]
    assert check_iceberg(world.table).same


def erased(tmp_path: Path, **settings: Any) -> tuple[World, str]:
    world = catalog_world(tmp_path, statistics=["k"], **settings)
    Appender(world.table).append(pa.table({"k": ["a", SECRET], "p": ["x", "x"]}))
    publish(world.table)
    world.clock.advance(1_000)
    engine = LocalEngine(lambda: world.store, tmp_path, world.ids, SystemClock())
    options = EraseOptions(columns=("k",), keys=((SECRET,),))
    report = run_erase(Work(world.table, RUN, lambda: engine), options)
    world.clock.advance(10 * GRACE)
    assert report.certificate is not None
    return world, report.certificate


def speaking(world: World) -> set[str]:
    """Metadata that states the erased value."""
    found = set()
    for key in metadata(world):
        data = world.store.objects[key][0]
        if SECRET.encode() in data or any(SECRET.encode() in block for block in blocks(data)):
            found.add(key)
    return found


def blocks(data: bytes) -> list[bytes]:
    """Everything in a file that may be a deflated block."""
    found = []
    for start in range(len(data) if data.startswith(b"Obj") else 0):
        try:
            found.append(zlib.decompressobj(-15).decompress(data[start:]))
        except zlib.error:
            continue
    return found


def kinds(certificate: Certificate) -> set[str]:
    return {entry.kind for entry in certificate.remaining if entry.blocks}


@pytest.mark.long
def test_metadata_with_bounds_of_erased_rows_goes_before_a_certificate_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, erase = erased(tmp_path)
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: None)  # there is no server
    found = complete_certificate(world.table, erase, RUN)
    assert (found.status, kinds(found)) == ("waiting", {"replaced part", "mirror"})
    assert speaking(world)
    publish(world.table)
    found = complete_certificate(world.table, erase, RUN)
    assert (found.status, kinds(found)) == ("waiting", {"replaced part", "mirror"})
    over(world)
    found = complete_certificate(world.table, erase, RUN)
    assert (found.status, kinds(found)) == ("complete", set())
    assert speaking(world) == set()
    assert check_iceberg(world.table).same
    Appender(world.table).append(pa.table({"k": ["later"]}))
    assert publish(world.table).written
    assert check_iceberg(world.table).same


@pytest.mark.long
def test_a_snapshot_that_names_the_partition_of_a_key_goes_before_a_certificate_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one that shows the erase says which files went with it, by their paths."""
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: None)  # there is no server
    world, erase = erased(tmp_path, partition_by=["k"])
    publish(world.table)
    (part,) = (key for key in parts(world) if SECRET in key)
    over(world)
    complete_certificate(world.table, erase, RUN)
    over(world)
    found = complete_certificate(world.table, erase, RUN)
    (entry,) = (entry for entry in found.remaining if entry.kind == "mirror")
    assert (found.status, part in parts(world)) == ("waiting", False)
    assert "run `firnline mirror t` after the next change" in entry.next_step
    assert set(entry.objects) <= speaking(world)
    assert speaking(world)
    Appender(world.table).append(pa.table({"k": ["later"], "p": ["x"]}))
    publish(world.table)
    found = complete_certificate(world.table, erase, RUN)
    (entry,) = (entry for entry in found.remaining if entry.kind == "mirror")
    assert found.status == "waiting"
    assert entry.until_ms is not None
    assert len(loaded(world).metadata.snapshots) == 2, "readers may use the one before"
    world.clock.now = entry.until_ms
    assert complete_certificate(world.table, erase, RUN).status == "complete"
    assert speaking(world) == set()
    assert check_iceberg(world.table).same


@pytest.mark.long
def test_a_snapshot_that_names_other_partitions_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: None)  # there is no server
    world, erase = erased(tmp_path, partition_by=["p"])
    publish(world.table)
    over(world)
    assert complete_certificate(world.table, erase, RUN).status == "complete"


@pytest.mark.long
def test_without_the_catalog_the_certificate_waits_and_says_why(tmp_path: Path) -> None:
    world, erase = erased(tmp_path)
    publish(world.table)
    world.clock.advance(GRACE)
    found = complete_certificate(without_catalog(world).table, erase, RUN)
    assert found.status == "waiting"
    said = " ".join(entry.why for entry in found.remaining)
    assert "do not say where its Iceberg mirror is" in said


def findings(world: World) -> set[str]:
    report = run_verify(Work(world.table), VerifyOptions())
    return {finding.kind for finding in report.findings if finding.kind.startswith("mirror")}


@pytest.mark.long
def test_verify_compares_the_mirror_with_the_log(world: World) -> None:
    keys = put_append(world)
    assert findings(world) == {"mirror-missing"}
    publish(world.table)
    assert findings(world) == set()
    assert findings(without_catalog(world)) == {"mirror-unchecked"}
    do_merge(world, keys)
    assert findings(world) == set(), "it lags"
    world.clock.advance(GRACE + 1)
    assert findings(world) == {"mirror-behind"}
    publish(world.table)
    foreign(world)
    assert findings(world) == {"mirror-damaged"}


@pytest.mark.long
def test_a_manifest_that_is_gone_is_one_sentence(world: World) -> None:
    put_append(world)
    publish(world.table)
    for key in [key for key in metadata(world) if key.endswith("-m0.avro")]:
        del world.store.objects[key]
    assert findings(world) == {"mirror-unchecked"}
