"""What everything else does with a table whose log files contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from firnline.appends.append import Appender
from firnline.errors import SchemaConflictError, UsageError
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.downgrade.run import run_downgrade
from firnline.operations.drop.run import list_partitions, run_drop
from firnline.operations.drop.ttl import run_ttl
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.import_files.run import run_import
from firnline.operations.import_options import ImportOptions
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
from firnline.state.history import history
from firnline.state.snapshot import read_snapshot
from tests.support.conflicts import RUN, conflicting, engine, fix
from tests.support.engines import CountingEngine
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.world import World, make_world

Act = Callable[[World, Path], object]
ROWS = pa.table({"id": [1], "day": [0], "v": [1]})

REFUSE: dict[str, Act] = {
    "read": lambda w, _: read_snapshot(w.store, w.table.paths),
    "append": lambda w, _: Appender(w.table).append(ROWS),
    "list": lambda w, _: list_partitions(w.table),
    "merge": lambda w, p: run_merge(Work(w.table, RUN, lambda: engine(w, p)), MergeOptions()),
    "drop": lambda w, _: run_drop(Work(w.table, RUN), DropOptions(partitions=("day=0",))),
    "ttl": lambda w, _: run_ttl(Work(w.table, RUN), TtlOptions()),
    "rewrite": lambda w, p: run_rewrite(
        Work(w.table, RUN, lambda: engine(w, p)), RewriteOptions(where="id > 1")
    ),
    "delete": lambda w, p: run_delete(
        Work(w.table, RUN, lambda: engine(w, p)), DeleteOptions(where="id = 1")
    ),
    "erase": lambda w, p: run_erase(
        Work(w.table, RUN, lambda: engine(w, p)), EraseOptions(columns=("id",), keys=((1,),))
    ),
    "clean-up": lambda w, _: run_cleanup(Work(w.table, RUN), CleanupOptions()),
    "sweep": lambda w, _: run_sweep(Work(w.table, RUN), SweepOptions()),
    "downgrade": lambda w, p: run_downgrade(
        Work(w.table, RUN, lambda: engine(w, p)), DowngradeOptions()
    ),
    "import": lambda w, _: run_import(Work(w.table), ImportOptions(source="memory://bucket/in")),
}


def contested() -> World:
    return conflicting(ttl={"keep": "30d", "partition": r"day=(?P<year>\d{4})"})


@pytest.mark.parametrize("name", REFUSE)
def test_it_refuses_with_one_sentence_and_changes_nothing(name: str, tmp_path: Path) -> None:
    world = contested()
    before = set(world.store.objects)
    with pytest.raises(SchemaConflictError) as caught:
        REFUSE[name](world, tmp_path)
    text = str(caught.value)
    assert "column 'v' is BIGINT in log file t/_log/" in text
    assert "but VARCHAR in log file t/_log/" in text
    assert "old-job.jsonl" in text
    assert "`firnline schema fix TABLE --column v --type BIGINT`" in caught.value.next_step
    assert set(world.store.objects) == before


def test_a_check_works_and_names_the_way_out_once() -> None:
    world = contested()
    for deep in (False, True):
        report = run_verify(Work(world.table), VerifyOptions(deep=deep))
        assert report.kinds == {"schema-conflict": 1}
        assert "firnline schema fix" in report.findings[0].next_step
        assert report.checked.footers == (5 if deep else 0)


def test_the_history_needs_no_columns_and_a_rebuild_sees_that_nothing_is_lost() -> None:
    world = contested()
    assert history(world.table) == []
    with pytest.raises(UsageError, match="there is nothing to rebuild"):
        run_rebuild(Work(world.table, RUN), RebuildOptions())


@pytest.mark.long
def test_a_certificate_waits_until_the_table_reads(tmp_path: Path) -> None:
    world = conflicting(appends=1)
    fix(world, tmp_path, type="BIGINT")
    report = run_erase(
        Work(world.table, RUN, lambda: engine(world, tmp_path)),
        EraseOptions(columns=("id",), keys=((1,),)),
    )
    again = conflicting(appends=1)
    log = next(k for k in again.store.objects if "old-job" in k)
    later = log.replace(log.rpartition("/")[2][:13], str(world.clock.now + 1))
    world.store.objects[later] = again.store.objects[log]
    with pytest.raises(SchemaConflictError):
        complete_certificate(world.table, str(report.certificate), RUN)


def test_everything_works_once_it_is_mended(tmp_path: Path) -> None:
    world = contested()
    fix(world, tmp_path, type="BIGINT")
    for name, act in REFUSE.items():
        if name in ("downgrade", "import"):  # the one waits for the delete, the other has no folder
            continue
        if name == "drop":
            run_drop(Work(world.table, RUN), DropOptions(partitions=("day=1",)))
        else:
            act(world, tmp_path)
    assert run_verify(Work(world.table), VerifyOptions(deep=True)).severities.get("error") is None


@pytest.mark.parametrize("op", ["merge", "rewrite"])
def test_a_run_that_meets_a_conflict_when_it_commits_leaves_no_output_behind(
    op: str, tmp_path: Path
) -> None:
    world = make_world(merge={"min_inputs": 2})
    for partition in ("d=1", "d=1", "d=2", "d=2"):
        put_append(world, partition)

    def between(number: int) -> None:
        if number == 0:
            rivals = [m.p for m in snapshot(world).partitions["d=2"]]
            do_merge(world, rivals)
            put_append(world, "d=2", schema={"v": "VARCHAR"})

    counting = CountingEngine(world, between=between)
    runs: dict[str, Callable[[], object]] = {
        "merge": lambda: run_merge(
            Work(world.table, RUN, lambda: counting), MergeOptions(partitions=("d=1",))
        ),
        "rewrite": lambda: run_rewrite(
            Work(world.table, RUN, lambda: counting),
            RewriteOptions(where="v > 1", partitions=("d=1",)),
        ),
    }
    with pytest.raises(SchemaConflictError):
        runs[op]()
    named = read_snapshot(world.store, world.table.paths, tolerant=True).parts
    assert {k for k in world.store.objects if "/_data/" in k} == named.keys()
