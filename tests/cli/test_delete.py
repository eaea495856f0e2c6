"""``firnline delete``, ``erase`` and ``certificate`` on a table of real parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.cli.commands.erase import parse_keys
from firnline.errors import UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.erase.run import run_erase
from firnline.operations.operation import Work
from firnline.operations.options import EraseOptions
from firnline.settings.load import settings_for_root
from firnline.table import open_table
from tests.support.cli import LogOnlyTable, Outcome, content_of, settings_file

Firnline = Callable[..., Outcome]
CUT = 9


class Terminal:
    """Somebody who types one line."""

    def __init__(self, text: str) -> None:
        self._text = text

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._text


@pytest.fixture
def root(tmp_path: Path, firnline: Firnline) -> str:
    """Ids 0 to 5 in d=1 and 6 to 11 in d=2, sorted by id; users u0, u1, u2 in turn."""
    url = f"file://{tmp_path}/events"
    settings = f"tables: {{events: {{root: '{url}', sort_by: [id], cleanup: {{grace: 1h}}}}}}"
    path = settings_file(tmp_path, settings)
    for number, first in enumerate((0, 6), 1):
        ids = list(range(first, first + 6))
        rows = tmp_path / "rows.parquet"
        pq.write_table(pa.table({"id": ids, "user": [f"u{i % 3}" for i in ids]}), rows)
        partition = f"d={number}"
        shown = firnline("append", "events", rows, "--partition", partition, "--settings", path)
        assert shown.code == 0
    return url


def rows_of(firnline: Firnline, root: str) -> int:
    found: int = firnline("parts", root, "--json").data["total"]["rows"]
    return found


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["erase", "--keys", "/nope.csv", "--column", "id"], "there is no file /nope.csv"),
        (["rewrite"], "give --where or --sql"),
        (["evolve"], "name one with --widen, --rename or --drop"),
        (["delete", "--where", "nope = 1"], "has no column 'nope'"),
        (["schema", "fix", "--column", "nope", "--type", "DATE"], "no log file states a column"),
    ],
)
def test_a_wrong_call_is_told_before_somebody_is_to_be_asked(
    firnline: Firnline, table: LogOnlyTable, asked: list[str], said: str
) -> None:
    words = [*asked[: 2 if asked[0] == "schema" else 1], table.root]
    done = firnline(*words, *asked[len(words) - 1 :])
    assert (done.code, said in done.sentence) == (2, True), done.err


def test_a_delete_says_what_it_did(firnline: Firnline, root: str) -> None:
    shown = firnline("delete", root, "--where", "id in (1, 2)", "--yes")
    assert shown.code == 0
    table = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert table["deleted"] == "2 rows"
    assert (
        table["parts"] == "1 read, 1 of them rewritten, 0 dropped unread, 1 excluded by statistics"
    )
    assert rows_of(firnline, root) == 10


def test_a_dry_run_shows_the_plan_and_changes_nothing(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    before = content_of(tmp_path)
    data = firnline("delete", root, "--where", "id < 8", "--dry-run", "--json").data
    assert (data["parts_to_read"], data["parts_to_drop"], data["rows_to_drop"]) == (1, 1, 6)
    out = firnline("delete", root, "--where", "id < 8", "--dry-run").out
    assert "1 part of events would be dropped unread: all of 6 rows match." in out
    none = firnline("delete", root, "--where", "id > 100", "--dry-run").out
    assert "No part of events would be touched." in none
    assert content_of(tmp_path) == before


def test_where_nobody_can_be_asked_yes_is_needed(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    before = content_of(tmp_path)
    for command in (
        ["delete", root, "--where", "id = 1"],
        ["erase", root, "--column", "user", "--key", "u1"],
    ):
        shown = firnline(*command)
        assert shown.code == 2
        assert shown.sentence.endswith("look with --dry-run, then give --yes")
    assert content_of(tmp_path) == before


@pytest.mark.parametrize(("typed", "code", "left"), [("yes\n", 0, 11), ("no\n", 1, 12)])
def test_a_person_is_shown_the_plan_and_asked(
    typed: str, code: int, left: int, firnline: Firnline, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    shown = firnline("delete", root, "--where", "id = 1")
    assert shown.code == code
    assert "1 part of events would be read" in shown.out
    assert rows_of(firnline, root) == left


def test_a_lazy_delete_says_that_rows_are_hidden(firnline: Firnline, root: str) -> None:
    shown = firnline("delete", root, "--where", "id = 1", "--lazy", "--yes")
    assert "rows of up to 1 part are hidden from readers" in shown.out
    assert rows_of(firnline, root) == 12


def test_a_condition_that_is_none_is_refused_with_its_reason(firnline: Firnline, root: str) -> None:
    shown = firnline("delete", root, "--where", "nobody = 1", "--yes")
    assert shown.code == 2
    assert "the table has no column 'nobody', but id, user" in shown.sentence


def broken_part(tmp_path: Path) -> Path:
    path = next((tmp_path / "events" / "_data" / "d=1").iterdir())
    path.write_bytes(path.read_bytes()[:-CUT])
    return path


def test_a_part_that_does_not_read_is_named_and_nothing_is_deleted(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    path = broken_part(tmp_path)
    shown = firnline("delete", root, "--where", "id in (1, 7)", "--yes")
    assert shown.code == 1
    assert path.name in shown.out
    assert "nothing was deleted from events, for the reasons above" in shown.err
    assert rows_of(firnline, root) == 12
    data = firnline("delete", root, "--where", "id in (1, 7)", "--yes", "--json")
    assert data.error["type"] == "DeleteFailedError"


def test_an_erase_names_its_certificate_and_the_certificate_waits(
    firnline: Firnline, root: str
) -> None:
    report = firnline("erase", root, "--column", "user", "--key", "u1", "--yes", "--json").data
    assert (report["keys"], report["counts"]["rows_deleted"]) == (1, 4)
    listed = firnline("certificate", root, "--json").data["certificates"]
    assert listed == [{"id": report["certificate"], "status": "waiting"}]
    found = firnline("certificate", root, report["certificate"], "--json").data
    assert (found["status"], len(found["parts"])) == ("waiting", 2)
    assert (found["link"]["number"], found["witness"]) == (1, None)
    assert found["head"]["seq"] == found["replaced"]["seq"]
    out = firnline("certificate", root, report["certificate"]).out
    assert "waiting: the rows are gone for readers, and objects remain" in out
    assert "2 replaced parts" in out
    assert "2 in all" in out
    assert re.search(r"number +1 of this table's erases\n", out)
    assert "u1" not in out
    assert report["certificate"] in firnline("certificate", root).out


@pytest.mark.parametrize(
    ("operations", "also"), [("[erase, tombstone_cleanup]", True), ("[erase]", False)]
)
def test_an_erase_says_that_clean_ups_complete_its_certificate_where_the_table_has_them(
    operations: str, also: bool, root: str, firnline: Firnline, tmp_path: Path
) -> None:
    section = f"{{root: '{root}', cleanup: {{grace: 1h}}, operations: {operations}}}"
    path = settings_file(tmp_path, f"tables: {{events: {section}}}")
    asked = ("--column", "user", "--key", "u1", "--yes", "--settings", path)
    out = " ".join(firnline("erase", "events", *asked).out.split())
    assert "`, after the grace" in out
    assert ("; so does a run of tombstone_cleanup in Airflow" in out) is also


def test_an_erase_by_a_file_shows_counts_and_no_key(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("user\nu1\nu2\n")
    plan = firnline("erase", root, "--column", "user", "--keys", path, "--dry-run").out
    assert "Keys of user: 2. 2 parts of events would be read" in plan
    shown = firnline("erase", root, "--column", "user", "--keys", path, "--yes")
    assert shown.code == 0
    assert shown.out.splitlines()[0].split() == ["erased", "8", "rows"]
    assert "u1" not in shown.out + shown.err


def test_an_erase_with_parts_that_do_not_read_ends_failed_and_says_what_it_erased(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    path = broken_part(tmp_path)
    shown = firnline("erase", root, "--column", "user", "--key", "u1", "--yes")
    assert shown.code == 1
    assert path.name in shown.out
    assert "erased       2 rows" in shown.out
    assert "1 part of events may hold keys still" in shown.err


def test_a_certificate_shows_who_started_and_who_approved(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    table = open_table(settings_for_root(root))
    run = RunIdentity(dag_id="erase__t", run_id="r", user="ana", approved_by="bo")

    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def engine() -> LocalEngine:
        return LocalEngine(lambda: table.store, scratch, table.ids, table.clock)

    options = EraseOptions(columns=("user",), keys=(("u1",),))
    erased = run_erase(Work(table, run, engine), options).certificate
    out = firnline("certificate", root, str(erased)).out
    assert re.search(r"asked by +ana, ", out)
    assert re.search(r"approved by +bo\n", out)


def test_the_advice_to_show_keys_names_the_certificate_and_can_be_followed(
    firnline: Firnline, root: str, tmp_path: Path
) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("user\nu1\n")
    out = firnline("erase", root, "--column", "user", "--keys", path, "--yes").out
    advice = re.search(
        r"`firnline certificate (\S+) (\S+) --keys FILE --secret SECRET`", _flat(out)
    )
    secret = re.search(r"^secret +(\w+)$", out, re.MULTILINE)
    assert advice is not None
    assert secret is not None
    proof = ("--keys", path, "--secret", f" {secret[1].upper()} ")
    assert re.search(r"proven +its keys", firnline("certificate", root, advice[2], *proof).out)


def _flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("names", "proof", "said"),
    [
        (False, ("--keys", "k.csv", "--secret", "0f" * 32), "its id is missing"),
        (False, ("--keys", "k.csv"), "its id is missing"),
        (False, ("--secret", ""), "--secret is empty"),
        (True, ("--secret", "0f" * 32), "shows nothing without the keys"),
        (True, ("--keys", "k.csv"), "without its secret"),
        (True, ("--keys", "k.csv", "--secret", " "), "--secret is empty"),
    ],
)
def test_a_proof_that_lacks_a_piece_is_refused(
    names: bool, proof: tuple[str, ...], said: str, firnline: Firnline, root: str
) -> None:
    report = firnline("erase", root, "--column", "user", "--key", "u1", "--yes", "--json").data
    shown = firnline("certificate", root, *([report["certificate"]] if names else []), *proof)
    assert (shown.code, said in shown.sentence) == (2, True)


def test_nothing_erased_has_no_certificate(firnline: Firnline, root: str) -> None:
    assert firnline("certificate", root).out == "Nothing was ever erased from events.\n"
    shown = firnline("certificate", root, "x")
    assert (shown.code, "'x' is not the id of a certificate" in shown.sentence) == (2, True)


def test_keys_of_several_columns_are_json_lists() -> None:
    assert parse_keys(["a"], ["[1]", "x"]) == (("[1]",), ("x",))
    with pytest.raises(UsageError, match="white space"):
        parse_keys(["a"], ["x", "y "])
    with pytest.raises(UsageError, match="key 2 has white space"):
        parse_keys(["a", "b"], ['["x", 1]', '["y ", 1]'])
    exact = Decimal("123456789012345678.91")
    assert parse_keys(["a", "b"], ['["x", 123456789012345678.91]']) == (("x", exact),)
    assert parse_keys(["a", "b"], ['["x", 1]']) == (("x", 1),)
    assert parse_keys(["a", "b"], None) == ()
    with pytest.raises(UsageError, match="key 2 is not a JSON list of 2 values"):
        parse_keys(["a", "b"], ['["x", 1]', "secret"])
