"""An import of new files only: again and again, each file once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from firnline.errors import CommitConflictError, ObjectNotFoundError, UsageError
from firnline.log.imports import last_listed, record_line, records_of
from firnline.operations.import_files import look, taken
from firnline.operations.import_files import run as module
from firnline.operations.import_files.run import ImportReport, run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.operation import Work
from firnline.operations.options import RebuildOptions, VerifyOptions
from firnline.operations.rebuild.run import run_rebuild
from firnline.operations.verify.run import run_verify
from tests.support import histories
from tests.support.downgrades import downgraded
from tests.support.histories import ids_of, parquet_bytes, state
from tests.support.world import World, make_world
from tests.unit.operations.clone.test_run import clone

FOLDER = "memory://bucket/lake/in"


class Killed(BaseException):
    pass


def die(*_args: Any, **_more: Any) -> bool:
    raise Killed


def rebuilt(world: World) -> None:
    """The log is lost, and made of the parts again."""
    for key in [key for key in world.store.objects if "/_log/" in key]:
        del world.store.objects[key]
    run_rebuild(Work(world.table, histories.RUN), RebuildOptions(include=("*",)))


def put(world: World, name: str, *ids: int) -> None:
    data = parquet_bytes(pa.table({"id": list(ids)}))
    world.store.objects[f"lake/in/{name}"] = (data, world.clock.now)


def do_import(world: World, source: str = FOLDER, **options: Any) -> ImportReport:
    world.clock.advance(10)
    return run_import(Work(world.table), ImportOptions(source=source, **options))


@pytest.mark.long
def test_a_folder_that_others_keep_writing_is_taken_file_by_file(tmp_path: Path) -> None:
    world = make_world()
    expected = Counter[int]()
    for day in range(10):
        for number in range(3):
            put(world, f"2024/{day:02}/{number}.parquet", day * 3 + number)
            expected[day * 3 + number] = 1
        report = do_import(world, new=True)
        assert (report.plan["files"], report.plan["known"]) == (3, day * 3)
        assert do_import(world, new=True).log_file is None, "nothing is new"
        if day in (3, 6):
            histories.merge(world, tmp_path)
            histories.clean_up(world)
    assert ids_of(world) == expected
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).kinds == {}


@pytest.mark.long
def test_it_goes_on_after_an_import_of_the_whole_and_below_any_folder() -> None:
    world = make_world()
    put(world, "a/1.parquet", 1)
    do_import(world)
    put(world, "a/2.parquet", 2)
    put(world, "b/3.parquet", 3)
    do_import(world, f"{FOLDER}/a", new=True)
    assert ids_of(world) == Counter([1, 2])
    do_import(world, new=True)
    assert ids_of(world) == Counter([1, 2, 3])
    with pytest.raises(UsageError, match="was imported into this table before") as caught:
        do_import(world)
    assert "--new" in caught.value.next_step


def test_the_type_of_a_column_may_be_stated_of_runs_that_bring_no_such_folder() -> None:
    world = make_world()
    typed: Any = {"new": True, "path_types": ("day=DATE",)}
    put(world, "1.parquet", 1)
    assert do_import(world, **typed).log_file is not None
    assert do_import(world, **typed).log_file is None
    assert state(world).schema == {"id": "BIGINT"}


def test_what_it_costs_is_the_list_and_not_the_files_that_are_known() -> None:
    world = make_world()
    for number in range(50):
        put(world, f"{number}.parquet", number)
    do_import(world, new=True)
    put(world, "new.parquet", 50)
    report = do_import(world, new=True)
    spent = {k: v for k, v in report.requests.items() if v and not k.startswith("bytes")}
    # GET: the log file of before, the list, the footer. PUT: claim, copy, list, log file, and that
    # it is visible. The folder is listed twice, the second time from the new file on.
    assert spent == {"get": 3, "put": 5, "list": 8}


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda world: put(world, "1.parquet", 7),
        lambda world: world.store.objects.pop("lake/in/1.parquet"),
    ],
    ids=["written", "deleted"],
)
@pytest.mark.parametrize("moment", ["_footers", "write_taken"])
def test_a_file_that_is_written_while_it_is_imported_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, rewrite: Callable[[World], Any], moment: str
) -> None:
    world = make_world()
    for number in range(3):
        put(world, f"{number}.parquet", number)
    place = look if moment == "_footers" else module
    original = getattr(place, moment)

    def and_then(*args: Any) -> Any:
        found = original(*args)
        monkeypatch.undo()
        rewrite(world)
        return found

    monkeypatch.setattr(place, moment, and_then)
    if moment == "write_taken":  # what was copied is what was listed
        do_import(world, new=True)
        assert ids_of(world) == Counter(range(3))
        return
    with pytest.raises((CommitConflictError, ObjectNotFoundError), match=r"1.parquet"):
        do_import(world, new=True)
    assert not any(key.startswith("t/") for key in world.store.objects)


def test_a_file_that_was_written_again_is_named_and_left_out() -> None:
    world = make_world()
    put(world, "1.parquet", 1)
    do_import(world, new=True)
    world.clock.advance(10)
    put(world, "1.parquet", 1, 2)
    put(world, "3.parquet", 3)
    report = do_import(world, new=True)
    assert report.plan["changed"] == ["lake/in/1.parquet"]
    assert ids_of(world) == Counter([1, 3])
    with pytest.raises(UsageError, match=r"1 object of .* would be left out"):
        do_import(world, new=True, strict=True)


def test_of_two_imports_at_the_same_time_one_takes_the_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    do_import(world, new=True)
    put(world, "1.parquet", 1)
    original, rivals = taken.write_taken, list[ImportReport]()

    def and_meanwhile(*args: Any) -> str:
        monkeypatch.undo()
        rivals.append(do_import(world, new=True))
        return original(*args)

    monkeypatch.setattr(module, "write_taken", and_meanwhile)
    with pytest.raises(CommitConflictError, match="another import into table t became visible"):
        do_import(world, new=True)
    assert rivals[0].plan["files"] == 1
    assert ids_of(world) == Counter([0, 1])
    assert do_import(world, new=True).log_file is None
    live = state(world).live
    parts = [key for key in world.store.objects if key.startswith("t/_data/")]
    assert sorted(parts) == sorted(live), "the copies of the other one are gone"


def test_an_import_that_died_before_it_was_visible_is_done_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world()
    put(world, "0.parquet", 0)

    with monkeypatch.context() as patch:
        patch.setattr(module, "publish_append", die)
        with pytest.raises(Killed):
            do_import(world, new=True)
    assert do_import(world, new=True).plan["files"] == 1
    assert ids_of(world) == Counter([0])


@pytest.mark.long
def test_lists_that_are_continued_go_with_the_clean_up(tmp_path: Path) -> None:
    world = make_world()
    for number in range(8):
        put(world, f"{number}.parquet", number)
        do_import(world, new=True)
    histories.merge(world, tmp_path)
    for _ in range(3):
        world.clock.advance(30 * 86_400_000)
        histories.clean_up(world)
    last = last_listed(records_of(state(world).other))
    assert last is not None
    lists = [key for key in world.store.objects if "/_imports/" in key]
    paths = world.table.paths
    assert sorted(lists) == [paths.imported(last.id), paths.imported_visible(last.id)]
    assert len(records_of(state(world).other)) == 1, "one record of a folder stays"
    put(world, "8.parquet", 8)
    do_import(world, new=True)
    assert ids_of(world) == Counter(range(9))


def test_files_of_an_import_without_a_list_are_not_taken_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    with monkeypatch.context() as patch:
        old = lambda record: record_line(replace(record, number=0))  # noqa: E731
        patch.setattr(module, "record_line", old)
        do_import(world)
    with pytest.raises(UsageError, match="kept no list of its files"):
        do_import(world, new=True)
    assert ids_of(world) == Counter([0])


def test_a_list_that_is_gone_stops_and_doubles_nothing() -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    do_import(world, new=True)
    for key in [key for key in world.store.objects if "/_imports/" in key]:
        del world.store.objects[key]
    with pytest.raises(UsageError, match="the list of the files that were imported"):
        do_import(world, new=True)
    assert ids_of(world) == Counter([0])


@pytest.mark.parametrize("made_anew_by", [downgraded, rebuilt])
def test_a_log_that_was_made_anew_does_not_take_files_twice(
    made_anew_by: Callable[[World], Any],
) -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    put(world, "1.parquet", 1)
    do_import(world, new=True)
    made_anew_by(world)
    assert not records_of(state(world).other), "nothing in it tells of the import"
    put(world, "2.parquet", 2)
    with pytest.raises(UsageError, match=r"2 files .* lake/in/0.parquet first, were imported"):
        do_import(world)
    assert do_import(world, new=True).plan["known"] == 2
    put(world, "3.parquet", 3)
    do_import(world, new=True)
    assert ids_of(world) == Counter(range(4))
    assert do_import(world, new=True).log_file is None


@pytest.mark.parametrize("days", [0, 30])
@pytest.mark.parametrize("made_anew_by", [lambda _: None, downgraded, rebuilt])
@pytest.mark.parametrize("moment", ["_claims", "publish_append"])
def test_files_of_an_import_that_died_are_taken_however_old_its_list_is(
    monkeypatch: pytest.MonkeyPatch,
    made_anew_by: Callable[[World], Any],
    days: int,
    moment: str,
) -> None:
    world = make_world()
    world.store.objects["lake/b/1.parquet"] = (parquet_bytes(pa.table({"id": [1]})), 0)
    histories.append(world, 9)
    made_anew_by(world)
    put(world, "0.parquet", 0)
    before = ids_of(world)
    with monkeypatch.context() as patch:
        place = module._Work if moment == "_claims" else module
        patch.setattr(place, moment, die)
        with pytest.raises(Killed):
            do_import(world, new=True)
    world.clock.advance(days * 86_400_000)
    do_import(world, "memory://bucket/lake/b", new=True)
    do_import(world, new=True)
    assert ids_of(world) == before + Counter([0, 1])


def test_lists_of_a_table_that_is_gone_stop_an_import() -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    do_import(world, new=True)
    for key in [k for k in world.store.objects if k.startswith("t/") and "/_imports/" not in k]:
        del world.store.objects[key]
    with pytest.raises(UsageError, match="imported into a table that is gone"):
        do_import(world, new=True)


def test_a_log_that_was_made_anew_takes_other_folders() -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    do_import(world)
    downgraded(world)
    world.store.objects["lake/b/1.parquet"] = (parquet_bytes(pa.table({"id": [1]})), 0)
    do_import(world, "memory://bucket/lake/b", new=True)
    assert ids_of(world) == Counter([0, 1])
    do_import(world, new=True)
    assert ids_of(world) == Counter([0, 1]), "the list has the files of before"


def test_a_folder_that_is_mistyped_is_an_error_and_one_that_was_emptied_is_not() -> None:
    world = make_world()
    with pytest.raises(UsageError, match="no Parquet file lies under"):
        do_import(world, "memory://bucket/lake/nosuch", new=True)
    put(world, "0.parquet", 0)
    do_import(world, new=True)
    del world.store.objects["lake/in/0.parquet"]
    assert do_import(world, new=True).log_file is None
    with pytest.raises(UsageError, match="no Parquet file lies under"):
        do_import(world, "memory://bucket/lake/nosuch", new=True)


@pytest.mark.parametrize("history", [True, False])
def test_a_clone_imports_other_folders_and_takes_no_file_of_its_source_twice(history: bool) -> None:
    world = make_world()
    put(world, "0.parquet", 0)
    do_import(world, new=True)
    copy = clone(world, history=history)
    with pytest.raises(UsageError, match="was imported into"):
        do_import(copy)
    if history:
        assert do_import(copy, new=True).log_file is None, "it has the list"
    else:
        with pytest.raises(UsageError, match="kept no list"):
            do_import(copy, new=True)
    key = "lake/other/1.parquet"
    world.store.objects[key] = (parquet_bytes(pa.table({"id": [1]})), world.clock.now)
    for _ in range(2):
        do_import(copy, "memory://bucket/lake/other", new=True)
    assert ids_of(copy) == Counter([0, 1])
