"""Many small groups are merged by processes beside the one that asks, as by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace as replace_engine
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel import local
from firnline.kernel.beside import process as beside
from firnline.kernel.beside.process import Beside, Process
from firnline.kernel.engine import running
from firnline.kernel.local import LocalEngine
from firnline.kernel.merge import merge_in
from firnline.kernel.task import KernelResult, KernelTask
from firnline.operations.local import local_engine
from firnline.parquet.footers import send
from firnline.settings.load import settings_for_root
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.table import open_table
from tests.kernel.conftest import Group
from tests.support.programs import HUNG_SECONDS
from tests.support.world import SetClock


def small(group: Group, count: int) -> list[KernelTask]:
    """Groups of two rows, of which a merge knows beforehand how small they are."""
    found = []
    for n in range(count):
        keys = group.put(pa.table({"a": [n]}), pa.table({"a": [-n]}))
        task = group.task(keys, {"a": "BIGINT"}, group=n, sort=("a",))
        inputs = tuple(replace(each, rows=1) for each in task.inputs)
        found.append(replace(task, inputs=inputs))
    return found


def root_of(group: Group) -> str:
    """A root whose keys are those of the group's store."""
    return f"file://{group.root}/t"


def engine(group: Group) -> LocalEngine:
    place = Beside(root=root_of(group), access=None, scratch=str(group.scratch))
    store = open_store(root_of(group))
    return LocalEngine(
        lambda: store, group.scratch, SystemIds(), SystemClock(), parallel=2, beside=place
    )


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FROM_GROUPS", 8)


def results_of(todo: list[KernelTask], one: LocalEngine) -> dict[int, KernelResult]:
    return {result.group: result for result in one.run(todo) if result is not None}


def rows_of(group: Group, result: KernelResult) -> list[int]:
    (part,) = result.parts
    values: list[int] = pq.read_table(group.root / part.key)["a"].to_pylist()
    return values


def not_here(*_: object) -> Any:
    raise AssertionError("a group was merged in this process")


def test_groups_are_merged_elsewhere_and_their_results_are_complete(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "merge_in", not_here)
    results = results_of(small(group, 20), engine(group))
    assert {n: rows_of(group, result) for n, result in results.items()} == {
        n: [-n, n] for n in range(20)
    }
    assert {(r.requests["get"], r.requests["put"]) for r in results.values()} == {(2, 1)}
    assert all(result.parts[0].digest for result in results.values())
    assert not list(group.scratch.glob("*"))


def test_a_group_that_fails_is_a_result_and_the_others_go_on(group: Group) -> None:
    todo = small(group, 12)
    (group.root / todo[5].inputs[0].key).write_bytes(b"broken")
    results = results_of(todo, engine(group))
    assert results[5].error_type == "PartUnreadableError"
    assert results[5].error_key == todo[5].inputs[0].key
    assert [n for n, result in results.items() if result.error] == [5]


def test_large_groups_among_many_small_ones_are_merged_here(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = small(group, 12)
    inputs = tuple(replace(each, rows=None) for each in todo[4].inputs)
    todo[4] = replace(todo[4], inputs=inputs)  # nobody knows how many rows it has
    here: list[int] = []
    real = merge_in

    def seen(place: Any, task: KernelTask, *given: Any) -> KernelResult:
        here.append(task.group)
        return real(place, task, *given)

    monkeypatch.setattr(local, "merge_in", seen)
    results = results_of(todo, engine(group))
    assert here == [4]
    assert sorted(results) == list(range(12))


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_groups_of_a_process_that_ends_are_merged_here(
    group: Group, end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[int] = []

    def command(_: str) -> list[str]:
        started.append(1)
        return [sys.executable, "-c", f"import os, signal, sys; {end}"]

    monkeypatch.setattr(beside, "own_python", command)
    results = results_of(small(group, 40), engine(group))
    assert len(started) <= 2, "one that cannot do it is not started for every batch"
    assert {n: rows_of(group, result) for n, result in results.items()} == {
        n: [-n, n] for n in range(40)
    }
    assert "ended with" in caplog.text


def test_where_no_process_starts_groups_are_merged_here(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    todo = small(group, 9)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    results = results_of(todo, engine(group))
    assert [result.error for result in results.values()] == [None] * 9
    assert "no process starts" in caplog.text


def test_a_process_that_is_stopped_ends_with_the_run(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "END_S", 0.2)
    stopped: list[subprocess.Popen[bytes]] = []
    real = Process._start

    def start(self: Process) -> subprocess.Popen[bytes] | None:
        process = real(self)
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        stopped.append(process)
        return process

    monkeypatch.setattr(Process, "_start", start)
    with running(engine(group), small(group, 9)) as results:
        assert next(results) is None, "nothing completes"
    assert stopped
    assert {each.poll() for each in stopped} == {-signal.SIGKILL}


def test_a_process_that_is_killed_at_work_leaves_its_groups_as_they_were(group: Group) -> None:
    process = Process(Beside(root=root_of(group), access=None, scratch=str(group.scratch)))
    todo = small(group, 4)
    assert process.merge(todo[:2]) is not None
    running = process._running
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert process.merge(todo[2:]) is None
    again = process.merge(todo[2:])
    assert again is not None
    assert [rows_of(group, result) for result in again] == [[-2, 2], [-3, 3]]
    assert process.close() == 0


def test_a_process_whose_run_was_killed_ends_without_a_word(group: Group) -> None:
    asked = Beside(root=root_of(group), access=None, scratch=str(group.scratch))
    with subprocess.Popen(
        [sys.executable, "-m", "firnline.kernel.beside.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdout.close()
        send(worker.stdin, msgspec.json.encode(asked))
        send(worker.stdin, msgspec.json.encode(small(group, 4)))
        assert worker.wait(HUNG_SECONDS) == 0
        assert worker.stderr.read() == b""


def test_a_run_that_is_left_early_ends_its_processes(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = Process._start

    def start(self: Process) -> subprocess.Popen[bytes] | None:
        process = real(self)
        assert process is not None
        started.append(process)
        return process

    monkeypatch.setattr(Process, "_start", start)
    with running(engine(group), small(group, 40)) as results:
        assert next(result for result in results if result is not None).error is None
    assert started
    assert {each.poll() for each in started} == {0}


def test_credentials_are_in_no_argument_and_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    class Stopped(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], **more: Any) -> None:
            given.update(command=command, env=more["env"])
            super().__init__([sys.executable, "-c", ""], **more)

    monkeypatch.setattr(subprocess, "Popen", Stopped)
    access = StoreAccess(access_key="name", secret_key="hidden-word")
    place = Beside(root="s3://b/t", access=access.to_json(), scratch="/tmp/x")
    process = Process(place)
    assert process.merge(()) is None
    assert "hidden-word" not in f"{given}{place!r}"


def test_few_groups_and_one_core_need_no_process(group: Group) -> None:
    all_here = engine(group)
    assert {job.elsewhere for job in all_here._jobs(small(group, 7))} == {False}
    one = replace_engine(all_here, parallel=1)
    assert {job.elsewhere for job in one._jobs(small(group, 20))} == {False}
    apart = replace_engine(all_here, beside=None)
    assert {job.elsewhere for job in apart._jobs(small(group, 20))} == {False}


def test_processes_have_the_store_the_clock_and_the_ids_of_the_table(tmp_path: Path) -> None:
    access = StoreAccess(access_key="a", secret_key="b", region="eu-west-1")
    table = open_table(settings_for_root("s3://bucket/t"), access)
    found = local_engine(table, tmp_path)
    assert isinstance(found, LocalEngine)
    assert found.beside == Beside(
        root="s3://bucket/t", access=access.to_json(), scratch=str(tmp_path)
    )
    for other in (
        open_table(settings_for_root("memory://bucket/t")),
        open_table(settings_for_root(f"file://{tmp_path}/t"), clock=SetClock()),
    ):
        inside = local_engine(other, tmp_path)
        assert isinstance(inside, LocalEngine)
        assert inside.beside is None
