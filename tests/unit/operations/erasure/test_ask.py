"""A request of erasure is taken whole, with its clock, or refused before anything is written."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firnline.errors import SettingsError, UsageError
from firnline.operations.erasure.ask import AskOptions, ask
from firnline.operations.erasure.pages import taken_page
from firnline.operations.erasure.run import People, look
from firnline.settings.broken import BrokenTable
from firnline.settings.files import UnreadFile
from tests.support.people import DAY, RUN, Town, shop


def test_a_request_is_due_within_the_time_of_the_settings(tmp_path: Path) -> None:
    town = shop(tmp_path, within="10d")
    request = town.ask("customer_id,email\n1,p1@x.y\n").request
    assert request.due_ms - request.received_ms == 10 * DAY
    letter = town.clock.now - 3 * DAY
    late = town.ask("customer_id,email\n2,p2@x.y\n", received_ms=letter).request
    assert (late.received_ms, late.due_ms) == (letter, letter + 10 * DAY)
    assert (request.keys, request.columns) == (1, ("customer_id", "email"))


def test_the_digest_is_of_the_file_with_the_secret_that_is_told_once(tmp_path: Path) -> None:
    town = shop(tmp_path)
    report = town.ask("customer_id,email\n1,p1@x.y\n")
    data = b"customer_id,email\n1,p1@x.y\n"
    assert (
        report.request.digest
        == hmac.new(bytes.fromhex(report.secret), data, hashlib.sha256).hexdigest()
    )
    stored = b"".join(path.read_bytes() for path in (tmp_path / "requests").iterdir())
    assert report.secret.encode() not in stored


def test_the_report_names_tables_that_are_erased_and_those_that_do_not_say(tmp_path: Path) -> None:
    report = shop(tmp_path).ask("customer_id,email\n1,p1@x.y\n")
    assert report.tables == ("orders", "mails")
    assert report.unstated == ("weather",)


def test_keys_may_be_parquet_with_further_columns(tmp_path: Path) -> None:
    town = shop(tmp_path)
    path = tmp_path / "keys.parquet"
    rows = pa.table({"CUSTOMER_ID": [1], "email": ["p1@x.y"], "tags": [["a"]], "none": [None]})
    pq.write_table(rows, path)
    taken = ask(town.people, AskOptions(keys=str(path)), RUN)
    assert taken.request.columns == ("CUSTOMER_ID", "email")
    town.run()
    assert town.rows("orders", "n") == town.rows("mails", "n") == [0, 2, 3, 4, 5]


def test_texts_of_digits_stay_texts(tmp_path: Path) -> None:
    town = Town(tmp_path, {"codes": {"person": ["code"]}})
    town.append("codes", code=["007", "7"], n=[1, 2])
    town.ask("code\n007\n")
    town.run()
    assert town.rows("codes", "n") == [2]


def refused(town: Town, text: str, what: str, **options: Any) -> None:
    with pytest.raises(UsageError, match=what):
        town.ask(text, **options)
    assert town.requests() == []


def test_keys_that_lack_the_columns_of_a_table_are_refused_unless_it_is_left_out(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    refused(town, "customer_id\n1\n", r"no values for mails \(email\)")
    refused(town, "customer_id,email\n1,\n", r"no values for mails \(email\)")
    town.ask("customer_id\n1\n", without=("mails",))
    town.run()
    assert town.rows("orders", "n") == [0, 2, 3, 4, 5]
    assert town.rows("mails", "n") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "does not read"),
        ("customer_id,email\n", "has no key"),
        ("customer_id,email\n,\n", "has no key"),
        ("customer_id,email\n1,2\n1,2,3\n", "does not read: line 3 has 3 columns, and its head 2"),
        ("customer_id,email\n1,p1@x.y \n", "key 1 of .* has white space at an end of its email"),
        ("note,customer_id,email\na,1, p1@x.y\n", "key 1 of .* white space at an end of its email"),
        ("customer_id,email\n1,p1@x.y\u200b\n", r"invisible character U\+200B at an end of its em"),
        ("customer_id;email\n1;p1@x.y\n", "semicolons between its columns"),
        ("customer_id;email\n1,0;p1@x.y\n", "semicolons between its columns"),
        ("customer_id,customer_id,email\n1,2,a\n", "2 column"),
    ],
)
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str, what: str) -> None:
    refused(shop(tmp_path), text, what)


def test_times_that_cannot_be_are_refused(tmp_path: Path) -> None:
    town = shop(tmp_path)
    text, now = "customer_id,email\n1,p1@x.y\n", town.clock.now
    refused(town, text, "received in the future", received_ms=now + DAY)
    refused(town, text, "due before it was received", due_ms=now - DAY)


def test_unknown_tables_cannot_be_left_out(tmp_path: Path) -> None:
    refused(shop(tmp_path), "customer_id,email\n1,a\n", "no table order", without=("order",))


def test_without_a_table_of_people_there_is_nothing_to_ask_for(tmp_path: Path) -> None:
    refused(Town(tmp_path, {"weather": {}}), "a\n1\n", "names columns of a person")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    town = shop(tmp_path)
    options = AskOptions(keys=town.keys("customer_id\n1\n", "keys.xlsx"))
    with pytest.raises(UsageError, match=r"neither \.parquet nor \.csv"):
        ask(town.people, options, RUN)


def test_no_error_repeats_a_key(tmp_path: Path) -> None:
    town = shop(tmp_path)
    with pytest.raises(UsageError) as refusal:
        town.ask("customer_id,email\n1,p1@x.y,2\n")
    assert "p1@x.y" not in str(refusal.value)


def test_keys_that_a_column_cannot_hold_are_refused_with_table_column_type_and_row(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    text = "customer_id,email\n1,p1@x.y\n,p2@x.y\nsecret,p3@x.y\n"
    refused(town, text, r"table orders: key 3 of .*keys\.csv .* column customer_id \(BIGINT\)")
    with pytest.raises(UsageError) as refusal:
        town.ask(text)
    assert "secret" not in f"{refusal.value} {refusal.value.next_step}"
    assert "--without orders" in refusal.value.next_step
    town.ask(text, without=("orders",))
    town.run()
    assert town.rows("mails", "n") == [0, 4, 5]


def test_a_column_that_the_table_does_not_have_or_that_is_not_exact_is_refused(
    tmp_path: Path,
) -> None:
    town = Town(tmp_path, {"codes": {"person": ["code"]}})
    town.append("codes", n=[1])
    refused(town, "code\n1\n", "table codes: .*code")
    other = Town(tmp_path / "other", {"weights": {"person": ["kg"]}})
    other.place.mkdir()
    other.append("weights", kg=[1.5])
    refused(other, "kg\n1.5\n", "table weights: .*DOUBLE, whose values are not exact")


def test_a_table_that_cannot_be_read_holds_up_no_request(tmp_path: Path) -> None:
    town = shop(tmp_path)
    town.tables["new"] = {"person": ["customer_id"]}
    report = town.ask("customer_id,email\n1,p1@x.y\n")
    assert report.tables == ("orders", "mails", "new")
    (why,) = report.unread
    assert why.startswith("new: ")


def with_broken(town: Town, name: str, given: dict[str, Any]) -> People:
    """The people of a town that has one table more, whose settings have a mistake."""
    broken = BrokenTable(name, SettingsError("a typo", next_step="correct it"), given)
    return replace(town.people, settings=replace(town.settings, broken={name: broken}))


@pytest.mark.parametrize("given", [{"person": ["customer_id"]}, {"person": "customer_id"}, {}])
def test_a_table_whose_settings_have_a_mistake_is_named_with_it_and_stays_in_the_request(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    town = shop(tmp_path)
    options = AskOptions(keys=town.keys("customer_id,email\n1,p1@x.y\n"))
    report = ask(with_broken(town, "new", given), options, RUN)
    assert report.tables == report.request.tables == ("orders", "mails", "new")
    assert report.unread == ("new: a typo; correct it",)
    assert "new" in town.look().requests[0].left  # after it has left the settings
    out = AskOptions(keys=options.keys, without=("new",))
    without = ask(with_broken(town, "new", given), out, RUN)
    assert (without.tables, without.unread) == (("orders", "mails"), ())


def test_a_table_with_a_mistake_that_says_it_has_no_people_is_no_table_of_a_request(
    tmp_path: Path,
) -> None:
    town = shop(tmp_path)
    options = AskOptions(keys=town.keys("customer_id,email\n1,p1@x.y\n"))
    people = with_broken(town, "new", {"person": []})
    assert ask(people, options, RUN).tables == ("orders", "mails")
    assert look(people).requests[0].left == ("mails", "orders")


def test_keys_of_a_table_with_a_mistake_have_no_white_space_either(tmp_path: Path) -> None:
    town = Town(tmp_path, {})
    people = with_broken(town, "new", {"person": ["Code"]})
    with pytest.raises(UsageError, match="white space at an end of its code"):
        ask(people, AskOptions(keys=town.keys("code\na \n")), RUN)
    assert ask(people, AskOptions(keys=town.keys("code\na\n")), RUN).tables == ("new",)


def test_a_file_of_settings_that_does_not_read_is_named_and_is_no_table(tmp_path: Path) -> None:
    town = shop(tmp_path)
    unread = UnreadFile(tmp_path / "sales.yaml", SettingsError("a typo", next_step="mend it"), None)
    people = replace(town.people, settings=replace(town.settings, unread=(unread,)))
    report = ask(people, AskOptions(keys=town.keys("customer_id,email\n1,p1@x.y\n")), RUN)
    assert (report.tables, report.unread) == (("orders", "mails"), ("sales.yaml: a typo; mend it",))


def test_white_space_in_columns_that_identify_nobody_does_not_matter(tmp_path: Path) -> None:
    report = shop(tmp_path).ask("note,customer_id,email\n a letter ,1,p1@x.y\n")
    assert (report.request.keys, report.spaced) == (1, {})


def test_white_space_at_an_end_of_a_text_of_parquet_is_told_and_kept(tmp_path: Path) -> None:
    town = Town(tmp_path, {"codes": {"person": ["code"]}})
    town.append("codes", code=["a ", "a"], n=[1, 2])
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"CODE": ["a ", "b", " a"]}), path)
    report = ask(town.people, AskOptions(keys=str(path)), RUN)
    assert report.spaced == {"CODE": 2}
    said = " ".join(taken_page(report.to_json()).lines())
    assert "invisible character, at an end of 2 values of CODE: only rows that have it, too" in said
    town.run()
    assert town.rows("codes", "n") == [2]


def test_a_column_of_lists_is_named_as_one_that_is_no_key(tmp_path: Path) -> None:
    town = shop(tmp_path)
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"customer_id": [[1]], "email": ["p1@x.y"]}), path)
    with pytest.raises(UsageError, match=r"'customer_id' of .* is list<.*a key has one value"):
        ask(town.people, AskOptions(keys=str(path)), RUN)
    assert town.requests() == []


def test_a_table_whose_column_holds_lists_is_named_with_its_type(tmp_path: Path) -> None:
    town = Town(tmp_path, {"tagged": {"person": ["tags"]}})
    town.append("tagged", tags=[["a"]])
    refused(town, "tags\na\n", r"table tagged: column 'tags' is VARCHAR\[\], whose values cannot")
