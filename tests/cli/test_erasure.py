"""``firnline erasure``: a request from its file of keys to the bundle for an auditor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli import Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]


@pytest.fixture
def lake(tmp_path: Path, firnline: Firnline, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables with rows of the persons 0 to 2, and one that says nothing."""
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    settings_file(
        tmp_path,
        f"erasure: {{requests: 'file://{tmp_path}/requests'}}\n"
        "tables:\n"
        f"  orders: {{root: 'file://{tmp_path}/orders', person: [customer]}}\n"
        f"  visits: {{root: 'file://{tmp_path}/visits', person: [customer]}}\n"
        f"  weather: {{root: 'file://{tmp_path}/weather'}}\n",
    )
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"customer": [0, 1, 2]}), rows)
    for table in ("orders", "visits", "weather"):
        assert firnline("append", table, rows).code == 0
    (tmp_path / "keys.csv").write_text("customer\n1\n")
    return tmp_path


def customers(firnline: Firnline, table: str) -> list[int]:
    rows = firnline("read", table, "--json").data["rows"]
    return sorted(row["customer"] if isinstance(row, dict) else row[0] for row in rows)


def test_a_request_is_erased_from_all_tables(firnline: Firnline, lake: Path) -> None:
    taken = firnline("erasure", "ask", lake / "keys.csv", "--reference", "T-1")
    assert taken.code == 0
    assert "secret" in taken.out
    assert "weather" in taken.out
    shown = firnline("erasure")
    assert "1 request open. A run would erase from 2 tables" in shown.out
    done = firnline("erasure", "run", "--yes")
    assert done.code == 0
    assert "2 rows erased from 2 tables, 0 requests closed, 1 request open." in done.out
    assert customers(firnline, "orders") == customers(firnline, "visits") == [0, 2]
    assert "T-1: certified from 20" in firnline("erasure", "show").out


def test_a_table_with_a_mistake_in_its_settings_is_named_as_long_as_the_request_is_open(
    firnline: Firnline, lake: Path
) -> None:
    path = lake / "tables.yaml"
    right = path.read_text()
    visits = f"  visits: {{root: 'file://{lake}/visits', person: [customer]"
    path.write_text(right.replace(f"{visits}}}", f"{visits}, merge: {{targt_size: 1GiB}}}}"))
    taken = firnline("erasure", "ask", lake / "keys.csv", "--reference", "T-1")
    assert taken.code == 0
    assert "tables   orders, visits" in taken.out
    assert "visits: " in taken.out
    assert "targt_size" in taken.out
    path.write_text(right.replace(f"{visits}}}", ""))
    assert "T-1, visits: it was taken for this table" in " ".join(firnline("erasure").out.split())


def test_a_dry_run_and_a_run_that_nobody_agrees_to_change_nothing(
    firnline: Firnline, lake: Path
) -> None:
    assert firnline("erasure", "ask", lake / "keys.csv").code == 0
    before = content_of(lake)
    assert firnline("erasure", "run", "--dry-run").code == 0
    refused = firnline("erasure", "run")
    assert refused.code == 2
    assert "nobody can be asked" in refused.err
    assert content_of(lake) == before


def test_json_has_the_plan_and_no_key(firnline: Firnline, lake: Path) -> None:
    (lake / "keys.csv").write_text("customer\n2\n1\n")
    assert firnline("erasure", "ask", lake / "keys.csv", "--json").data["request"]["keys"] == 2
    data = firnline("erasure", "--json").data
    assert [(each["table"], each["keys"]) for each in data["tables"]] == [
        ("orders", 2),
        ("visits", 2),
    ]
    assert data["unstated"] == ["weather"]


def test_a_table_that_fails_is_told_after_the_page(firnline: Firnline, lake: Path) -> None:
    firnline("erasure", "ask", lake / "keys.csv")
    part = next((lake / "orders/_data").rglob("*.parquet"))
    part.write_bytes(b"PAR1")
    done = firnline("erasure", "run", "--yes")
    assert done.code == 1
    assert "orders may hold rows of people still" in done.err
    assert "1 row erased from 1 table" in done.out
    assert customers(firnline, "visits") == [0, 2]


def test_the_mirrors_of_all_tables_show_it(firnline: Firnline, lake: Path) -> None:
    path = lake / "tables.yaml"
    path.write_text(
        path.read_text().replace("person: [customer]}", "person: [customer], mirror: [delta]}")
    )
    for table in ("orders", "visits"):
        assert firnline("properties", "apply", table, "--yes").code == 0
        assert firnline("mirror", table).code == 0
    firnline("erasure", "ask", lake / "keys.csv")
    versions = {
        t: len(list((lake / t / "_delta_log").glob("*.json"))) for t in ("orders", "visits")
    }
    assert firnline("erasure", "run", "--yes").code == 0
    for table, before in versions.items():
        assert len(list((lake / table / "_delta_log").glob("*.json"))) > before, table


def test_a_request_that_was_a_mistake_is_withdrawn(firnline: Firnline, lake: Path) -> None:
    request = firnline("erasure", "ask", lake / "keys.csv", "--json").data["request"]["id"]
    done = firnline("erasure", "withdraw", request, "--why", "asked twice")
    assert (done.code, done.out) == (0, f"Request {request} is withdrawn; its keys are deleted.\n")
    assert firnline("erasure").out == "No request is open; 1 are closed.\n"
    again = firnline("erasure", "withdraw", request, "--why", "asked twice")
    assert again.code == 2


def test_a_bundle_of_what_is_there(firnline: Firnline, lake: Path) -> None:
    request = firnline("erasure", "ask", lake / "keys.csv", "--json").data["request"]["id"]
    early = firnline("erasure", "bundle", request, lake / "out")
    assert early.code == 2
    assert not (lake / "out").exists()
    firnline("erasure", "run", "--yes")
    done = firnline("erasure", "bundle", request, lake / "out")
    assert done.code == 0
    listed = {Path(line) for line in done.out.splitlines()}
    assert listed == {path for path in (lake / "out").rglob("*") if path.is_file()}
    assert firnline("erasure", "bundle", request, lake / "out").code == 2


@pytest.mark.parametrize("alone", [True, False])
def test_file_and_secret_of_a_request_show_that_a_certificate_is_of_it(
    firnline: Firnline, lake: Path, alone: bool
) -> None:
    keys = lake / "keys.csv"
    if not alone:
        other = lake / "other.csv"
        other.write_text("customer\n2\n")
        assert firnline("erasure", "ask", other).code == 0
    taken = firnline("erasure", "ask", keys, "--json").data
    run = firnline("erasure", "run", "--yes", "--json").data
    id_ = next(each["certificate"] for each in run["tables"] if each["table"] == "orders")
    proof = (
        "certificate",
        "orders",
        id_,
        "--keys",
        keys,
        "--secret",
        f" {taken['secret'].upper()}",
    )
    shown = firnline(*proof)
    assert shown.code == 0
    said = " ".join(shown.out.split())
    assert f"proven the file that was shown is that of request {taken['request']['id']}" in said
    assert ("those of 1 other request" in said) is not alone
    assert firnline(*proof, "--json").data["shown_request"] == taken["request"]["id"]
    keys.write_text("customer\n0\n")
    assert "are not those of certificate" in firnline(*proof).err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "nowhere.csv"], "nowhere.csv"),
        (["ask", "keys.csv", "--due", "soon"], "due 'soon' is not a time"),
        (["ask", "keys.csv", "--without", "order"], "no table order"),
        (["withdraw", "x", "--why", "y"], "there is no request 'x'"),
        (["bundle", "x", "out"], "there is no request 'x'"),
    ],
)
def test_wrong_input_is_one_sentence(
    firnline: Firnline,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(lake)
    done = firnline("erasure", *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_settings_without_a_folder_for_requests_say_what_to_write(
    firnline: Firnline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_TABLES", str(tmp_path / "tables.yaml"))
    settings_file(tmp_path, f"tables:\n  t: {{root: 'file://{tmp_path}/t'}}\n")
    done = firnline("erasure")
    assert done.code == 2
    assert "erasure: {requests:" in done.err


def test_erase_names_the_command_for_all_tables(firnline: Firnline) -> None:
    assert "`firnline erasure run`" in firnline("erase", "--all-tables").err
