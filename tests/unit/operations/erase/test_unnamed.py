"""Objects that no log file names, beside an erase: whose writer began when decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.kernel.local import LocalEngine
from firnline.operations.erase import leftovers
from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.run import EraseReport
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions
from firnline.store.upload import Upload
from tests.support.log_tables import do_nothing
from tests.support.reading import visible_rows
from tests.support.traces import traces
from tests.support.world import Asleep, Crashed, Fault, FaultyStore, SetClock, World
from tests.unit.operations.erase.test_completion import (
    DAY,
    HOUR,
    KEY,
    RUN,
    Server,
    append,
    certify,
    erase,
    keyed,
    kinds,
    tidy,
)

ROWS = pa.table({"c": [KEY], "p": ["a"], "k": [7]})


def parts_with_the_key(world: World) -> set[str]:
    found = traces(world.store.objects, KEY)
    return {key for key, forms in found.items() if "/_data/" in key and "rows" in forms}


def unnamed(found: Certificate) -> set[str]:
    return {key for each in found.remaining if each.kind == "orphan" for key in each.objects}


def settled(world: World, report: EraseReport) -> None:
    """What the erase replaced is gone, and every wait of the clock is over."""
    world.clock.advance(3 * DAY)
    assert certify(world, report).status in {"waiting", "complete"}


@dataclass
class DiesAt(FaultyStore):
    """The process dies before its first request that begins with one of ``at``."""

    at: tuple[str, ...] = ()

    def _next(self, name: str) -> str:
        if name.startswith(self.at) and self.fault is None:
            self.fault = Fault(len(self.calls), "before")
        return super()._next(name)


def slept_append(world: World, meanwhile: Callable[[], None]) -> None:
    """An append that sleeps before it uploads its part, and dies right after that."""
    store = Asleep(
        DiesAt(world.store, at=("put t/_log/", "delete")), at="put t/_data/", meanwhile=meanwhile
    )
    with pytest.raises(Crashed):
        Appender(replace(world.table, store=store)).append(ROWS)
    assert store.slept == 1


@pytest.mark.long
@pytest.mark.parametrize("days", [1, 3, 30])
def test_a_part_that_a_sleeper_uploads_later_than_every_wait_keeps_a_certificate_waiting(
    days: int, tmp_path: Path
) -> None:
    world = keyed()
    reports: list[EraseReport] = []

    def meanwhile() -> None:
        reports.append(erase(world, tmp_path))
        world.clock.advance(days * DAY)

    slept_append(world, meanwhile)
    found = certify(world, reports[0])
    left = parts_with_the_key(world) & unnamed(found)
    assert (found.status, len(left)) == ("waiting", 1)
    world.clock.advance(3 * DAY)
    assert kinds(certify(world, reports[0])) == {"orphan"}
    for _ in range(4):
        tidy(world)
        do_nothing(world)
        world.clock.advance(9 * DAY)
    assert certify(world, reports[0]).status == "complete"
    assert parts_with_the_key(world) == set()


def test_an_output_that_a_merge_uploads_after_its_sleep_keeps_a_certificate_waiting(
    tmp_path: Path,
) -> None:
    world = keyed(merge={"min_inputs": 2})
    append(world, c=[KEY, "y"], p=["a", "b"], k=[3, 4])
    reports: list[EraseReport] = []

    def meanwhile() -> None:
        reports.append(erase(world, tmp_path))
        world.clock.advance(9 * DAY)

    store = Asleep(DiesAt(world.store, at=("put t/_txn/",)), at="put t/_data/", meanwhile=meanwhile)
    own = SetClock(world.clock.now, world.clock.elapsed)
    local = LocalEngine(lambda: store, tmp_path, world.ids, SystemClock())
    with pytest.raises(Crashed):
        run_merge(
            Work(replace(world.table, store=store, clock=own), RUN, lambda: local), MergeOptions()
        )
    found = certify(world, reports[0])
    assert (found.status, unnamed(found)) == ("waiting", parts_with_the_key(world))
    assert len(unnamed(found)) == 1


def test_what_a_writer_uploads_that_began_after_the_erase_keeps_nobody_waiting(
    tmp_path: Path,
) -> None:
    """It dies, or is under way; its footer says on which state it began."""
    world = keyed()
    report = erase(world, tmp_path)
    settled(world, report)
    with pytest.raises(Crashed):
        Appender(
            replace(world.table, store=DiesAt(world.store, at=("put t/_log/", "delete")))
        ).append(pa.table({"c": ["new"], "p": ["a"], "k": [9]}))
    assert certify(world, report).status == "complete"


@pytest.mark.parametrize("what", ["no Parquet", "another writer's", "another table's"])
def test_an_object_that_does_not_say_when_its_writer_began_keeps_a_certificate_waiting(
    what: str, tmp_path: Path
) -> None:
    world = keyed()
    report = erase(world, tmp_path)
    settled(world, report)
    path = tmp_path / "x.parquet"
    whose = {"firnline.table": "other", "firnline.partition": "", "firnline.writer": "w"}
    own = {"another table's": {**whose, "firnline.q": "99"}, "another writer's": {}}
    if what == "no Parquet":
        path.write_bytes(b"who knows")
    else:
        pq.write_table(ROWS.replace_schema_metadata(own[what]), path)
    key = world.table.paths.data_part("", world.ids.uuid7(world.clock.now))
    world.store.put_file(key, path)
    assert unnamed(certify(world, report)) == {key}
    del world.store.objects[key]
    assert certify(world, report).status == "complete"


def test_only_footers_of_what_came_after_every_wait_are_read(tmp_path: Path) -> None:
    world = keyed()
    early = world.table.paths.data_part("", world.ids.uuid7(world.clock.now))
    world.store.objects[early] = (b"of before", world.clock.now)
    report = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    late = world.table.paths.data_part("", world.ids.uuid7(world.clock.now))
    world.store.objects[late] = (b"of after", world.clock.now)
    store = FaultyStore(world.store)
    assert unnamed(certify(replace_store(world, store), report)) == {early, late}
    read = [call for call in store.calls if "t/_data/" in call and not call.startswith("list")]
    assert [call for call in read if early in call] == []
    assert len([call for call in read if late in call]) == 1


def replace_store(world: World, store: object) -> World:
    """The same world, through another store."""
    return replace(world, table=replace(world.table, store=store))  # type: ignore[arg-type]


@pytest.mark.long
def test_what_a_sleeper_uploads_after_the_completion_is_named_and_swept(tmp_path: Path) -> None:
    """No certificate can exclude it."""
    world = keyed()
    reports: list[EraseReport] = []

    def meanwhile() -> None:
        reports.append(erase(world, tmp_path))
        settled(world, reports[0])
        assert certify(world, reports[0]).status == "complete"

    slept_append(world, meanwhile)
    found = certify(world, reports[0])
    assert (found.status, unnamed(found)) == ("complete", parts_with_the_key(world))
    assert len(unnamed(found)) == 1
    for _ in range(3):
        world.clock.advance(9 * DAY)
        tidy(world)
    assert parts_with_the_key(world) == set()
    assert unnamed(certify(world, reports[0])) == set()


@pytest.mark.parametrize(("maintained", "kind"), [(False, "late part"), (True, "orphan")])
def test_rows_that_a_sleeper_names_after_the_completion_are_hidden(
    maintained: bool, kind: str, tmp_path: Path
) -> None:
    """By the record of the erase, which stays until the fence has passed it; then by the fence."""
    world = keyed()
    reports: list[EraseReport] = []

    def meanwhile() -> None:
        reports.append(erase(world, tmp_path))
        settled(world, reports[0])
        for _ in range(5 * maintained):
            tidy(world)
            world.clock.advance(9 * DAY)
        assert certify(world, reports[0]).status == "complete"

    store = Asleep(world.store, at="put t/_data/", meanwhile=meanwhile)
    own = SetClock(world.clock.now, world.clock.elapsed)
    Appender(replace(world.table, store=store, clock=own)).append(ROWS)
    assert kinds(certify(world, reports[0])) == {kind}
    assert [row["c"] for row in visible_rows(world.table)] == ["z"]


def test_uploads_of_live_writers_keep_nobody_waiting_and_those_of_dead_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = keyed()
    report = erase(world, tmp_path)
    settled(world, report)
    part = Upload("t/_data/x.parquet", "1", world.clock.now)
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: Server(part))
    complete = certify(world, report)
    assert complete.status == "complete"
    other = erase(world, tmp_path)
    world.clock.advance(3 * DAY)
    dead = Upload("t/_data/y.parquet", "2", world.clock.now)
    monkeypatch.setattr(leftovers, "open_uploads", lambda *_: Server(dead))
    world.clock.advance(24 * HOUR)
    assert kinds(certify(world, other)) == {"upload"}
