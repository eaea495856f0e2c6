"""Proofs of merges on a real store: nothing is uploaded before they hold; no request is added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.append.append import Appender
from firnline.kernel.outputs import Producer
from firnline.operations.merge.run import MergeFailedError
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.state.snapshot import read_snapshot
from firnline.store.probe import forget
from firnline.table import Table
from tests.store.test_merge_accounting import merge, opened
from tools.s3server import StoreRoot

PARTS = 6


def filled(root: StoreRoot, **settings: Any) -> Table:
    table = opened(root, **settings)
    appender = Appender(table)
    for number in range(PARTS):
        appender.append(pa.table({"id": [number, number + 1], "name": ["a", None]}))
    return table


def keys(table: Table) -> list[str]:
    return [meta.key for meta in table.store.list(table.paths.data_dir)]


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes another value than it has read."""
    real = Producer._finished

    def finished(producer: Producer, path: Path, *rest: Any) -> Any:
        with pq.ParquetFile(path) as file:
            rows, pairs = file.read(), file.schema_arrow.metadata
        wrong = rows.set_column(1, "name", pa.array(["a"] * rows.num_rows))
        pq.write_table(wrong.replace_schema_metadata(pairs), path)
        return real(producer, path, *rest)

    monkeypatch.setattr(Producer, "_finished", finished)


def test_a_group_whose_proof_fails_leaves_the_table_and_the_bucket_as_they_were(
    store_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(store_root)
    before = keys(table), set(read_snapshot(table.store, table.paths).live)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(MergeFailedError) as failed:
            merge(store_root, tmp_path / "scratch")
    (failure,) = failed.value.report.failures
    assert failure.error == "RowsDifferError"
    assert "failed its proof" in failure.message
    assert before == (keys(table), set(read_snapshot(table.store, table.paths).live))
    assert failed.value.report.requests["get"] >= PARTS
    assert merge(store_root, tmp_path / "scratch").counts.parts_out == 1


def test_reading_back_and_digests_cost_no_request(store_root: StoreRoot, tmp_path: Path) -> None:
    spent = []
    for proof in ("counts", "rows"):
        place = f"{store_root.url}/{proof}"
        table = filled(store_root, root=place)
        forget()  # the probe is part of what a run costs
        report = merge(store_root, tmp_path / "scratch", root=place, merge={"proof": proof})
        spent.append({k: v for k, v in report.requests.items() if not k.startswith("bytes")})
        before = table.store.counters.as_dict()["get"]
        audit = run_verify(table, VerifyOptions(rows=True))
        assert audit.healthy, audit.findings
        assert audit.checked.read_parts == 1
        assert table.store.counters.as_dict()["get"] > before
    assert spent[0] == spent[1]
