"""What a clean-up of the benchmark has left: data parts, and no checkpoint of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cleanup import CONTENDERS
from firnline.ids import format_uuid7
from firnline.paths import TablePaths

ROOT_NAME = "firnline-table"


def put(folder: Path, key: str) -> None:
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


@pytest.mark.long
def test_a_checkpoint_is_not_left_over_and_a_data_part_is(tmp_path: Path) -> None:
    paths, root = TablePaths(ROOT_NAME), f"file://{tmp_path}/{ROOT_NAME}"
    left = CONTENDERS["firnline"].left
    put(tmp_path, paths.checkpoint(1, format_uuid7(1_700_000_000_000, 1)))
    assert left(root, {}, tmp_path / ROOT_NAME) == 0
    put(tmp_path, paths.data_part("d=1", format_uuid7(1_700_000_000_000, 2)))
    put(tmp_path, paths.data_part("", format_uuid7(1_700_000_000_000, 3)))
    assert left(root, {}, tmp_path / ROOT_NAME) == 2


def test_a_checkpoint_of_delta_is_not_left_over_either(tmp_path: Path) -> None:
    put(tmp_path, "_delta_log/00000000000000000001.checkpoint.parquet")
    assert CONTENDERS["delta-rs"].left("", {}, tmp_path) == 0
    put(tmp_path, "part-000001.parquet")
    assert CONTENDERS["delta-rs"].left("", {}, tmp_path) == 1
