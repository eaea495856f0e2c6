"""What proves a request: certificates of all its tables, and what lies outside of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firnline.errors import UsageError
from firnline.operations.erase.bundle import write
from firnline.operations.erasure.bundle import bundle_of
from tests.support.people import Town, shop


def closed(tmp_path: Path) -> tuple[Town, str]:
    town = shop(tmp_path / "town")
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    town.wait()
    town.run()
    return town, taken.request.id


@pytest.mark.long
def test_the_bundle_checks_a_copy_of_each_table(tmp_path: Path) -> None:
    town, request = closed(tmp_path)
    folder = tmp_path / "bundle"
    write(folder, bundle_of(town.people, request))
    for name in ("orders", "mails"):
        own = folder / name
        (certificate,) = own.glob("0*.json")
        told = ["--certificate", str(certificate), "--witness", str(own / "witnesses.txt")]
        program = [sys.executable, str(own / "verify_table.py"), str(town.place / name)]
        done = subprocess.run([*program, *told], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        assert "2 of these searched for the keys of an erase" in done.stdout


def test_the_end_of_the_request_states_the_digest_of_each_certificate(tmp_path: Path) -> None:
    town, request = closed(tmp_path)
    files = bundle_of(town.people, request)
    stated = {each["table"]: each["sha256"] for each in json.loads(files["closed.json"])["tables"]}
    for name, digest in stated.items():
        (path,) = (each for each in files if each.startswith(f"{name}/0"))
        assert json.loads(files[path])["sha256"] == digest


def test_the_bundle_names_what_no_certificate_speaks_of(tmp_path: Path) -> None:
    town, request = closed(tmp_path)
    town.tables["orders"]["import"] = {"source": "s3://landing/orders/", "schedule": None}
    outside = bundle_of(town.people, request)["outside.txt"].decode()
    assert "orders: rows were imported from s3://landing/orders/" in outside
    assert "table weather, of which nobody has said" in outside


def test_no_file_of_a_bundle_has_a_key(tmp_path: Path) -> None:
    town, request = closed(tmp_path)
    assert [n for n, data in bundle_of(town.people, request).items() if b"p1@x.y" in data] == []


def test_an_open_request_has_what_is_there(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask("customer_id,email\n1,p1@x.y\n")
    with pytest.raises(UsageError, match="erased from no table"):
        bundle_of(town.people, taken.request.id)
    town.run()
    files = bundle_of(town.people, taken.request.id)
    assert "closed.json" not in files
    assert {"orders/verify_table.py", "mails/verify_table.py"} <= files.keys()
