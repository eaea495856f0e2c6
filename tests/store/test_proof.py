"""Proofs of merges on a real store: nothing is uploaded before they hold; no request is added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.ids import SystemIds
from firnline.kernel.local import LocalEngine
from firnline.kernel.outputs import Producer
from firnline.kernel.small import SmallGroup
from firnline.log.txn_file import RunIdentity
from firnline.operations.merge.run import MergeFailedError, MergeReport, run_merge
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.settings.load import TableSettings
from firnline.state.snapshot import read_snapshot
from firnline.store.access import StoreAccess
from firnline.store.probe import forget
from firnline.table import Table, open_table
from tools.s3server import StoreRoot

RUN = RunIdentity(run_id="r")
PARTS = 6


def filled(store_root: StoreRoot, name: str) -> Table:
    table = opened(store_root, name)
    appender = Appender(table)
    for number in range(PARTS):
        appender.append(pa.table({"id": [number, number + 1], "name": ["a", None]}))
    return table


def opened(store_root: StoreRoot, name: str) -> Table:
    """The table of that name, whose merges are proven as it says."""
    access = StoreAccess.from_env(store_root.env) if store_root.kind == "s3" else None
    root = f"{store_root.url}/{name}"
    given = {"name": "t", "root": root, "merge": {"proof": name}}
    return open_table(TableSettings.model_validate(given), access)


def merged(store_root: StoreRoot, scratch: Path, name: str) -> MergeReport:
    engine = LocalEngine(
        lambda: opened(store_root, name).store, scratch, SystemIds(), SystemClock()
    )
    return run_merge(Work(opened(store_root, name), RUN, lambda: engine), MergeOptions())


def keys(table: Table) -> list[str]:
    return [meta.key for meta in table.store.list(table.paths.data_dir)]


def plant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes another value than it has read, in memory and by its database."""
    real, encoded = Producer._finished, SmallGroup._encoded

    def wrongly(group: SmallGroup, rows: pa.Table) -> bytes:
        return encoded(group, rows.set_column(1, "name", pa.array(["a"] * rows.num_rows)))

    def finished(producer: Producer, path: Path, *rest: Any) -> Any:
        with pq.ParquetFile(path) as file:
            rows, pairs = file.read(), file.schema_arrow.metadata
        wrong = rows.set_column(1, "name", pa.array(["a"] * rows.num_rows))
        pq.write_table(wrong.replace_schema_metadata(pairs), path)
        return real(producer, path, *rest)

    monkeypatch.setattr(SmallGroup, "_encoded", wrongly)
    monkeypatch.setattr(Producer, "_finished", finished)


def test_a_group_whose_proof_fails_leaves_the_table_and_the_bucket_as_they_were(
    store_root: StoreRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(store_root, "rows")
    before = keys(table), set(read_snapshot(table.store, table.paths).live)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(MergeFailedError) as failed:
            merged(store_root, tmp_path / "scratch", "rows")
    (failure,) = failed.value.report.failures
    assert failure.error == "RowsDifferError"
    assert "failed its proof" in failure.message
    assert before == (keys(table), set(read_snapshot(table.store, table.paths).live))
    assert failed.value.report.requests["get"] >= PARTS
    assert merged(store_root, tmp_path / "scratch", "rows").counts.parts_out == 1


def test_reading_back_and_digests_cost_no_request(store_root: StoreRoot, tmp_path: Path) -> None:
    spent = []
    for proof in ("counts", "rows"):
        table = filled(store_root, proof)
        forget()  # the probe is part of what a run costs
        report = merged(store_root, tmp_path / "scratch", proof)
        spent.append({k: v for k, v in report.requests.items() if not k.startswith("bytes")})
        before = table.store.counters.as_dict()["get"]
        audit = run_verify(Work(table), VerifyOptions(rows=True))
        assert audit.healthy, audit.findings
        assert audit.checked.read_parts == 1
        assert table.store.counters.as_dict()["get"] > before
    assert spent[0] == spent[1]
