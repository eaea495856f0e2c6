"""What a certificate says of a sweep is the command that deletes, and from when it does."""

from __future__ import annotations

import re
from pathlib import Path

from firnline.operations.erase.certificate import Certificate
from firnline.operations.erase.completion import complete_certificate
from firnline.units import parse_utc
from tests.support.people import DAY, RUN, Town, shop


def certify(town: Town) -> Certificate:
    (id_,) = {name.partition(".")[0] for name in town.certificates("orders")}
    return complete_certificate(town.open("orders"), id_, RUN)


def orphan_step(town: Town) -> str:
    (orphan,) = (each for each in certify(town).remaining if each.kind == "orphan")
    return orphan.next_step


def test_the_command_deletes_at_the_time_that_is_told_and_not_before(tmp_path: Path) -> None:
    town = shop(tmp_path)
    table = town.open("orders")
    key = table.paths.data_part("", town.ids.uuid7(town.clock.now))
    table.store.put_new(key, b"of an erase that was killed")
    town.ask("customer_id,email\n1,p1@x.y\n")
    town.run()
    step = orphan_step(town)
    said = re.fullmatch(
        r"run `firnline sweep orders --delete` from (.+)Z on, when it takes the youngest, and this "
        "again",
        step,
    )
    assert said is not None, step
    time = parse_utc(said[1])
    assert time > town.clock.now + 2 * DAY
    town.clock.now = time - 2000
    town.sweep("orders")
    assert (tmp_path / key).exists()
    town.clock.now = time
    assert orphan_step(town) == "run `firnline sweep orders --delete`, and this again"
    town.sweep("orders")
    assert not (tmp_path / key).exists()
    assert certify(town).status == "complete"
