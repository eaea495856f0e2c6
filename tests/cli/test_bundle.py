"""``firnline certificate --bundle``: what an auditor gets, and that it checks the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of

Firnline = Callable[..., Outcome]


@pytest.fixture
def erased(tmp_path: Path, firnline: Firnline) -> tuple[str, str]:
    """A table from which a key was erased, and the id of the certificate."""
    root = f"file://{tmp_path}/events"
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(6), "user": [f"u{i % 3}" for i in range(6)]}), rows)
    assert firnline("append", root, rows).code == 0
    report = firnline("erase", root, "--column", "user", "--key", "u1", "--yes", "--json").data
    return root, report["certificate"]


def test_a_bundle_checks_a_copy_of_the_table(
    erased: tuple[str, str], firnline: Firnline, tmp_path: Path
) -> None:
    root, certificate = erased
    folder = tmp_path / "for-the-auditor"
    out = firnline("certificate", root, certificate, "--bundle", folder).out
    names = ["verify_table.py", "witnesses.txt", f"{certificate}.json"]
    assert out.splitlines()[-3:] == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    copy = tmp_path / "events"
    program: list[str | Path] = [sys.executable, "-I", folder / names[0], copy, "--all"]
    evidence: list[str | Path] = [
        "--witness",
        folder / names[1],
        "--certificate",
        folder / names[2],
    ]
    done = subprocess.run([*program, *evidence], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.splitlines()[-1] == "what was checked holds"


def test_without_an_id_a_bundle_has_all_certificates(
    erased: tuple[str, str], firnline: Firnline, tmp_path: Path
) -> None:
    root, certificate = erased
    found = firnline("certificate", root, "--bundle", tmp_path / "b", "--json").data
    assert [Path(path).name for path in found["bundle"]][-1] == f"{certificate}.json"
    assert found["certificates"] == [{"id": certificate, "status": "waiting"}]


def test_a_bundle_is_refused_before_anything_is_done(
    erased: tuple[str, str], firnline: Firnline, tmp_path: Path
) -> None:
    root, certificate = erased
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    before = content_of(tmp_path)
    for folder, said in (
        (tmp_path / "full", "is not an empty folder"),
        ("s3://bucket/b", "--bundle is a URL (s3), and what is written stays on this machine"),
    ):
        done = firnline("certificate", root, certificate, "--bundle", folder)
        assert (done.code, said in done.sentence) == (2, True), done.err
    assert content_of(tmp_path) == before
