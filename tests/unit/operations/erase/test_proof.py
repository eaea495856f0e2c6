"""A request's file of keys proves a certificate, and stands for all of its keys only alone."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from firnline.commit.base import read_base
from firnline.errors import UsageError
from firnline.operations.erase.certificate import Certificate, read
from firnline.operations.erase.keys import KeySet
from firnline.operations.erase.proof import ShownKeys, proven, shown_request
from tests.support.people import Town, shop

ONE = "customer_id,email\n1,p1@x.y\n,p4@x.y\n"


def certificate_of(town: Town, table: str) -> Certificate:
    (id_,) = {name.partition(".")[0] for name in town.certificates(table)}
    opened = town.open(table)
    found = read(opened, opened.paths.certificate(id_))
    assert found is not None
    return found


def prove(town: Town, table: str, shown: ShownKeys) -> KeySet | None:
    opened = town.open(table)
    schema = read_base(opened).snapshot.schema
    return proven(opened, certificate_of(town, table), schema, shown)


def named(town: Town, table: str, shown: ShownKeys) -> str | None:
    return shown_request(town.open(table), certificate_of(town, table), shown)


def test_the_file_of_the_only_request_has_all_keys_of_the_table(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask(ONE)
    town.run()
    shown = ShownKeys(town.keys(ONE), taken.secret)
    for table, keys in (("orders", 1), ("mails", 2)):
        found = prove(town, table, shown)
        assert found is not None
        assert len(found.keys) == keys == certificate_of(town, table).keys
        assert named(town, table, shown) == taken.request.id


def test_the_file_of_one_request_among_others_has_not_all_keys(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask(ONE)
    town.ask("customer_id,email\n2,p2@x.y\n")
    town.run()
    shown = ShownKeys(town.keys(ONE), taken.secret)
    assert prove(town, "orders", shown) is None
    assert named(town, "orders", shown) == taken.request.id


def test_it_is_proven_also_after_a_column_has_gone(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask(ONE)
    town.run()
    shown = ShownKeys(town.keys(ONE), taken.secret)
    assert proven(town.open("mails"), certificate_of(town, "mails"), {}, shown) is None


@pytest.mark.parametrize(
    ("text", "secret"), [(f"{ONE}5,p5@x.y\n", None), (ONE, "0" * 64)], ids=["file", "secret"]
)
def test_another_file_or_secret_proves_nothing(
    tmp_path: Path, text: str, secret: str | None
) -> None:
    town = shop(tmp_path)
    taken = town.ask(ONE)
    town.run()
    shown = ShownKeys(town.keys(text), secret or taken.secret)
    with pytest.raises(UsageError, match="not those of certificate") as refusal:
        prove(town, "orders", shown)
    assert "of one of its requests" in refusal.value.next_step
    assert named(town, "orders", shown) is None


def test_the_digest_of_a_request_is_that_which_anybody_can_compute(tmp_path: Path) -> None:
    town = shop(tmp_path)
    taken = town.ask(ONE)
    town.run()
    digest = hmac.new(bytes.fromhex(taken.secret), ONE.encode(), hashlib.sha256).hexdigest()
    assert [each.digest for each in certificate_of(town, "orders").requests] == [digest]
