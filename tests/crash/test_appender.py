"""A service with an Appender is killed; the machine does not stop to ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firnline.settings.load import settings_for_root
from firnline.state.snapshot import read_snapshot
from firnline.table import open_table
from tools.bootstrap import REPO
from tools.s3server import StoreRoot


def run_and_kill(root: StoreRoot, after: int) -> set[int]:
    """Rows that the child said were acknowledged; it is killed after so many flushes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.append_child", root.url],
        env={**os.environ, **root.env},
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said = [process.stdout.readline() for _ in range(after)]
    process.send_signal(signal.SIGKILL)
    said += process.stdout.readlines()
    errors = process.stderr.read()
    assert process.wait() == -signal.SIGKILL, errors.decode()
    return {n for line in said if line.endswith(b"\n") for n in json.loads(line)}


def rows(root: StoreRoot, folder: Path) -> Counter[int]:
    table = open_table(settings_for_root(root.url))
    found: Counter[int] = Counter()
    for key in read_snapshot(table.store, table.paths).live:
        table.store.get_file(key, folder / "part")
        found.update(pq.ParquetFile(folder / "part").read(["n"])["n"].to_pylist())
    return found


@pytest.mark.parametrize("after", [1, 7])
def test_a_killed_service_loses_nothing_that_was_acknowledged_and_doubles_nothing(
    store_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    for name, value in store_root.env.items():
        monkeypatch.setenv(name, value)
    acknowledged = run_and_kill(store_root, after)
    first = rows(store_root, tmp_path)
    assert len(acknowledged) >= after
    assert set(first.values()) == {1}
    assert acknowledged <= first.keys()
    # What was under way when it died is there as a whole or not at all: calls are atomic.
    assert all(n + 1 in first for n in first if n % 2 == 0)
    assert rows(store_root, tmp_path) == first
