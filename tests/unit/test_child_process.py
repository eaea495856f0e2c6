"""A process that works on a stranger's bytes gets nothing of the environment but what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from firnline.child_process import child_environment, own_python
from firnline.kernel.query import process as query_process
from firnline.parquet import footers as footer_process

START = query_process._start
"""The product's own; tests of this folder fork instead."""

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_PROFILE": "prod",
    "AIRFLOW_CONN_LAKE": "aws://a:hush@",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://a:hush@host/db",
    "FIRNLINE_STORE_ACCESS": '{"secret_key": "hush"}',
    "FIRNLINE_JOB_OPTIONS": "{}",
    "DB_PWD": "hush",
    "PYSPARK_GATEWAY_SECRET": "hush",
    "HOME": "/home/hush",
}
NEEDED = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "TMPDIR": "/scratch", "TZ": "UTC"}


def test_a_process_of_ours_runs_nothing_that_lies_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("msgspec.py", "signal.py", "runpy.py", "firnline.py", "shown.py"):
        (tmp_path / name).write_text("raise SystemExit('not ours')")
    there = tmp_path / "there"
    there.mkdir()
    (there / "asked.py").write_text("import msgspec, signal, sys; print(sys.argv[1:], __name__)")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(there), *filter(None, sys.path)])
    done = subprocess.run(
        own_python("asked", "a", "b"),
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['a', 'b'] __main__\n"


def test_a_python_inside_of_another_program_has_no_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", None)
    assert own_python("asked")[0] == ""


def test_what_is_not_listed_is_not_handed_on() -> None:
    given = child_environment({**SECRETS, **NEEDED, "PYTHONPATH": "old"})
    path, threads = given["PYTHONPATH"], {"OPENBLAS_NUM_THREADS": "1"}
    assert {**NEEDED, **threads, "PYTHONPATH": path} == given
    assert given["PYTHONPATH"].split(":") == [path for path in sys.path if path]


def environment_of(pid: int) -> bytes:
    """Of a process, once it runs its own program; before that it has none to be read."""
    for _ in range(2_000):
        seen = Path(f"/proc/{pid}/environ").read_bytes()
        if seen:
            return seen
        time.sleep(0.01)
    raise AssertionError(f"process {pid} never began")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_neither_the_querys_nor_the_footers_process_sees_a_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    footers = footer_process._Process()
    request, more = os.pipe()  # it waits for the rest of it
    with (
        os.fdopen(request, "rb") as given,
        tempfile.TemporaryFile() as told,
        START(given, told) as query,
    ):
        for process in (query, footers._start()):
            seen = environment_of(process.pid)
            assert b"hush" not in seen
            assert b"AIRFLOW" not in seen
            assert b"PYTHONPATH=" in seen
        query.kill()
    os.close(more)
    footers.close()
