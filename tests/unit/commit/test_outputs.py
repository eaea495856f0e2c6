"""When new objects may be deleted: never once a put that may make them live was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest

from firnline.appends.append import Appender
from firnline.appends.service import Appender as Service
from firnline.commit.base import take_base
from firnline.commit.outputs import Outputs
from firnline.errors import CommitUnknownError, FlushFailedError, InvariantError, StoreAccessError
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, RestoreOptions, VerifyOptions
from firnline.operations.restore.run import run_restore
from firnline.operations.runner import Progress
from firnline.operations.verify.run import run_verify
from firnline.store.base import Deleted
from firnline.store.create import Attempt
from tests.support.effort import sample
from tests.support.engines import CountingEngine
from tests.support.histories import RUN, drop, filled, parquet_bytes, rows_from
from tests.support.log_tables import snapshot
from tests.support.reading import visible_ids
from tests.support.world import INTERRUPTED, INTERRUPTS, Fault, FaultyStore, World, make_world

FOLDER = "memory://bucket/lake/in"


def a_drop_to_undo() -> World:
    world = filled()
    drop(world, "day=0")
    world.clock.advance(10)
    return world


def restore(world: World, store: FaultyStore) -> object:
    return run_restore(Work(replace(world.table, store=store), RUN), RestoreOptions(to=0))


def a_folder() -> World:
    world = make_world()
    for number in range(2):
        data = parquet_bytes(rows_from(6 * number))
        world.store.objects[f"lake/in/a/{number}.parquet"] = (data, world.clock.now)
    return world


def import_(world: World, store: FaultyStore) -> object:
    return run_import(Work(replace(world.table, store=store)), ImportOptions(source=FOLDER))


def nothing_yet() -> World:
    return make_world(partition=".*")


def append(world: World, store: FaultyStore) -> object:
    return Appender(replace(world.table, store=store)).append(rows_from(0), "p")


CASES = [(a_drop_to_undo, restore), (a_folder, import_), (nothing_yet, append)]
each = pytest.mark.parametrize(("start", "run"), CASES, ids=["restore", "import", "append"])
interrupted = pytest.mark.parametrize("interrupt", INTERRUPTS)
Run = Callable[[World, FaultyStore], object]


def data(world: World) -> set[str]:
    return {key for key in world.store.objects if "/_data/" in key}


def commit_of(start: Callable[[], World], run: Run) -> int:
    """The number of the call that commits."""
    world = start()
    store = FaultyStore(world.store)
    run(world, store)
    puts = [
        n for n, call in enumerate(store.calls) if call.startswith(("put t/_txn/", "put t/_log/"))
    ]
    return puts[0]


def hit(start: Callable[[], World], run: Run, fault: Fault) -> World:
    world = start()
    with pytest.raises((*INTERRUPTED, CommitUnknownError)):
        run(world, FaultyStore(world.store, fault))
    return world


@pytest.mark.long
@interrupted
@each
def test_an_interrupt_right_after_the_put_that_commits_leaves_every_committed_row(
    start: Callable[[], World], run: Run, interrupt: str
) -> None:
    world = hit(start, run, Fault(commit_of(start, run), "after", interrupt))
    clean = start()
    run(clean, FaultyStore(clean.store))
    take_base(world.table)  # publishes what is committed
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).healthy
    assert visible_ids(world.table) == visible_ids(clean.table)
    assert snapshot(world).live.keys() <= data(world)


@pytest.mark.long
@interrupted
@each
def test_an_interrupt_before_anything_was_sent_that_commits_leaves_no_new_object(
    start: Callable[[], World], run: Run, interrupt: str
) -> None:
    points = list(product(range(commit_of(start, run)), ("before", "after")))
    for at, kind in sample(points, 4, interrupt):
        world = hit(start, run, Fault(at, kind, interrupt))
        assert data(world) == data(start()), (at, kind)


def test_a_lack_of_memory_after_the_log_file_of_an_append_is_told_as_what_nobody_knows() -> None:
    """Else a service or a task would append the rows again, and they would stand there twice."""
    at = commit_of(nothing_yet, append)
    for kind in ("before", "after"):
        world = nothing_yet()
        with pytest.raises(CommitUnknownError, match=r"append again only if .* does not appear"):
            append(world, FaultyStore(world.store, Fault(at, kind, "out of memory")))
        assert len(data(world)) == 1


def one_row(world: World, store: FaultyStore) -> Service:
    service = Service(replace(world.table, store=store), partition="p")
    service.append({"id": 1})
    return service


def one_row_flushed(world: World, store: FaultyStore) -> object:
    with one_row(world, store) as service:
        return service.flush()


@pytest.mark.parametrize(
    ("interrupt", "said"),
    [
        ("out of memory", r"append again only if .* does not appear"),
        ("SIGTERM", "check which of them are in the table before you append them again"),
    ],
)
def test_a_service_that_is_ended_right_after_the_put_invites_nobody_to_append_twice(
    interrupt: str, said: str
) -> None:
    world = nothing_yet()
    at = commit_of(nothing_yet, one_row_flushed)
    service = one_row(world, FaultyStore(world.store, Fault(at, "after", interrupt)))
    with pytest.raises(FlushFailedError, match=said):
        service.flush()
    service.close()
    assert visible_ids(world.table) == {1: 1}


def test_a_merge_that_is_interrupted_deletes_the_outputs_that_wait_for_their_commit() -> None:
    world = filled(merge={"min_inputs": 2, "commit_every": "1h"})
    before, rows = data(world), visible_ids(world.table)
    made = []

    def interrupt(progress: Progress) -> None:
        made.append(data(world) - before)
        if progress.groups_done == progress.groups or len(made) == 2:
            raise KeyboardInterrupt

    engine = CountingEngine(world)
    with pytest.raises(KeyboardInterrupt):
        run_merge(Work(world.table, RUN, lambda: engine, interrupt), MergeOptions())
    assert made[-1]
    assert data(world) == before
    assert visible_ids(world.table) == rows


@each
def test_what_stays_and_why_is_told(
    start: Callable[[], World], run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    hit(start, run, Fault(commit_of(start, run), "after", "Ctrl-C"))
    (said,) = [r.getMessage() for r in caplog.records if r.name == "firnline.commit.outputs"]
    assert "it is not known whether they are committed (KeyboardInterrupt)" in said
    assert "before running it again" in said


@each
def test_a_put_that_is_refused_in_clear_words_leaves_no_new_object(
    start: Callable[[], World], run: Run
) -> None:
    world = start()
    store = Refusing(world.store)
    with pytest.raises(StoreAccessError):
        run(world, store)
    assert data(world) == data(start())


class Refusing(FaultyStore):
    """Credentials that may write parts and no log."""

    def put_new(self, key: str, data: bytes) -> None:
        if "/_probe/" not in key:
            raise StoreAccessError(f"{key}: 403", next_step="check the credentials")
        super().put_new(key, data)


def test_outputs_that_may_be_live_are_never_deleted_whoever_asks() -> None:
    world = nothing_yet()
    new = Outputs(world.table, ["t/_data/p/1.parquet"], Attempt(may_stand=True))
    with pytest.raises(InvariantError, match="none was deleted"):
        new.delete()
    assert world.store.counters.delete == 0


def test_what_is_released_or_committed_is_nobody_elses_to_delete() -> None:
    world = nothing_yet()
    with suppress(KeyboardInterrupt), Outputs(world.table, "abc") as new:
        for key in "abc":
            world.store.put_new(key, b"")
        new.release("a")
        new.attempt.may_stand = True
        new.committed("b")
        raise KeyboardInterrupt
    assert world.store.objects.keys() == {"a", "b"}


def test_nothing_new_costs_no_request() -> None:
    world = nothing_yet()
    store = FaultyStore(world.store)
    with suppress(KeyboardInterrupt), Outputs(replace(world.table, store=store)):
        raise KeyboardInterrupt
    assert store.calls == []


@pytest.mark.parametrize("may_stand", [False, True])
def test_what_ends_a_run_without_objects_of_its_own_is_said_as_it_is(may_stand: bool) -> None:
    world = nothing_yet()
    attempt = Attempt(may_stand=may_stand)
    with pytest.raises(KeyboardInterrupt), Outputs(world.table, attempt=attempt):
        raise KeyboardInterrupt


def test_an_object_that_cannot_be_deleted_is_named_and_the_others_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = nothing_yet()
    for key in "abc":
        world.store.put_new(key, b"")
    with (
        pytest.raises(SystemExit),
        Outputs(replace(world.table, store=Keeping(world.store)), "abc"),
    ):
        raise SystemExit
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("b is left to the orphan sweep: b: 403")
    assert world.store.objects.keys() == {"b"}


class Keeping(FaultyStore):
    """Credentials that may delete everything but ``b``."""

    def delete_many(self, keys: Iterable[str]) -> Iterator[Deleted]:
        for key in keys:
            if key == "b":
                yield Deleted(key, StoreAccessError("b: 403", next_step="check the credentials"))
            else:
                yield from super().delete_many([key])


def test_a_store_that_fails_meanwhile_does_not_hide_what_ended_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = nothing_yet()
    store = FaultyStore(world.store, Fault(0, "before", "out of memory"))
    with pytest.raises(SystemExit), Outputs(replace(world.table, store=store), ["a"]):
        raise SystemExit
    assert "left to the orphan sweep" in caplog.text


def test_of_objects_that_wait_for_two_puts_only_those_of_the_one_are_deleted() -> None:
    world = make_world()
    for key in ("a", "b"):
        world.store.put_new(key, b"rows")
    with Outputs(world.table, ["a", "b"]) as new:
        new.delete(["a"])
        assert world.store.objects.keys() == {"b"}
        before = world.store.counters.delete
        new.delete([])
        assert world.store.counters.delete == before, "no request for nothing"
