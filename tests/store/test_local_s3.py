"""`make s3` as somebody types it: in by its exports, out by Ctrl-C, and the objects stay."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cli import PROGRAM
from tests.support.programs import HUNG_SECONDS
from tools import local_s3
from tools.bootstrap import REPO
from tools.s3server import free_port


@contextmanager
def make_s3(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """The recipe of the Makefile with a folder of the test, until it has printed everything."""
    recipe = ["-m", "tools.local_s3", "--port", str(port), "--folder", str(folder)]
    # Without site-packages: it needs none.
    command = [os.path.realpath(PROGRAM.with_name("python")), "-S", *recipe]
    env = {**os.environ, "PYTHONPATH": "include"}
    out = err = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPO, env=env, text=True, stdout=out, stderr=err) as process:
        try:
            yield process
        finally:
            process.kill()


def in_a_shell(folder: Path, command: str) -> str:
    """Run a command in a shell that has read the file with the exports."""
    script = f". {local_s3.env_file(folder)}; {PROGRAM.with_name('firnline')} {command}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(process: subprocess.Popen[str]) -> str:
    """What it prints at its start."""
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    said = ""
    for line in lines:
        said += line
        if "removes them" in line:
            return said
    pytest.fail(f"{said}\n{process.stderr.read() if process.stderr else ''}")


@pytest.mark.usefixtures("s3_server")  # skips, with its reason, where there can be none
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_table_is_there_again_after_it_was_ended(tmp_path: Path, ending: signal.Signals) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder, port = tmp_path / "s3", free_port()
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "rows.parquet")
    with make_s3(folder, port) as process:
        assert f"export AWS_ENDPOINT_URL=http://127.0.0.1:{port}\n" in told(process)
        in_a_shell(folder, f"append s3://lake/t {tmp_path}/rows.parquet")
        process.send_signal(ending)
        out, err = process.communicate(timeout=HUNG_SECONDS)
        assert (process.returncode, err) == (0, "")
        assert "the objects stay" in out
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
    with make_s3(folder, port) as process:
        told(process)
        assert "3 rows" in in_a_shell(folder, "read s3://lake/t")
        process.send_signal(signal.SIGINT)
        process.wait(HUNG_SECONDS)


@pytest.mark.usefixtures("s3_server")
def test_a_second_one_on_the_same_port_says_that_it_is_taken(tmp_path: Path) -> None:
    port = free_port()
    with make_s3(tmp_path / "one", port) as first:
        told(first)
        with make_s3(tmp_path / "two", port) as second:
            out, err = second.communicate(timeout=HUNG_SECONDS)
            assert (second.returncode, out) == (1, "")
            assert f"the port {port} of this machine is taken" in err
        first.send_signal(signal.SIGINT)
        first.wait(HUNG_SECONDS)
