"""The history of a table: whatever is done to it behind its back, verify finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from firnline.commit.base import digest_of, take_base
from firnline.errors import UsageError
from firnline.log import chain, codec, txn_file
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.state.history import history, newest_head
from firnline.state.witness import Witness, parse_witnesses
from tests.support.effort import FULL
from tests.support.histories import append, drop, filled
from tests.support.world import FaultyStore, World

SEEDS = 1_000 if FULL else 20
LENGTH = 7
"""Transactions of the history that is tampered with."""


def lived(transactions: int = LENGTH) -> World:
    world = filled(1)
    for number in range(transactions):
        append(world, 6 * number + 6)
        drop(world, f"day={number % 2}")
    return world


def witness(world: World) -> Witness:
    head = newest_head(world.table)
    assert head is not None
    return Witness(world.table.settings.name, head.seq, head.digest)


def verify(world: World, *seen: Witness) -> VerifyReport:
    return run_verify(Work(world.table), VerifyOptions(witness=tuple(map(str, seen))))


def read(world: World, seq: int) -> tuple[txn_file.TxnHeader, bytes]:
    key = world.table.paths.txn(seq)
    return txn_file.decode(key, world.store.objects[key][0], world.table.paths)


def write(world: World, header: txn_file.TxnHeader, log_file: bytes) -> None:
    """Overwrite a transaction, and its log file where that is there."""
    objects, paths = world.store.objects, world.table.paths
    objects[paths.txn(header.seq)] = (txn_file.encode(header, log_file), world.clock.now)
    if header.log in objects:
        objects[header.log] = (log_file, world.clock.now)


def with_other_rows(world: World, log_file: bytes) -> bytes:
    """The log file with another number of rows in its first marker, and a checksum that fits."""
    content = codec.decode("", log_file, world.table.paths)
    first = msgspec.structs.replace(content.markers[0], n=(content.markers[0].n or 0) + 1)
    return codec.encode(msgspec.structs.replace(content, markers=[first, *content.markers[1:]]))


def one_is_deleted(world: World, rng: random.Random) -> None:
    del world.store.objects[world.table.paths.txn(rng.randint(1, LENGTH))]


def its_end_is_cut_off(world: World, rng: random.Random) -> None:
    for seq in range(rng.randint(1, LENGTH), LENGTH + 1):
        header, _ = read(world, seq)
        world.store.objects.pop(header.log, None)
        del world.store.objects[world.table.paths.txn(seq)]


def two_change_places(world: World, rng: random.Random) -> None:
    """Each with the number of the other, so that their names fit."""
    one, other = rng.sample(range(1, LENGTH + 1), 2)
    found = {one: read(world, other), other: read(world, one)}
    for seq, (header, log_file) in found.items():
        content = codec.decode("", log_file, world.table.paths)
        assert content.x is not None
        mark = msgspec.structs.replace(content.x, seq=seq)
        log = world.table.paths.txn_log(header.t, seq, header.txn)
        renamed = msgspec.structs.replace(header, seq=seq, log=log, base=seq - 1)
        write(world, renamed, codec.with_mark(log_file, mark))


def a_log_file_is_changed(world: World, rng: random.Random) -> None:
    header, log_file = read(world, rng.randint(1, LENGTH))
    write(world, header, with_other_rows(world, log_file))


def a_log_file_is_changed_with_its_digest(world: World, rng: random.Random) -> None:
    header, log_file = read(world, rng.randint(1, LENGTH))
    forged = with_other_rows(world, log_file)
    digest = chain.content_digest("", forged, world.table.paths)
    write(world, msgspec.structs.replace(header, content=digest), forged)


def somebody_else_did_it(world: World, rng: random.Random) -> None:
    header, log_file = read(world, rng.randint(1, LENGTH))
    who = msgspec.structs.replace(header.run, user="somebody else")
    write(world, msgspec.structs.replace(header, run=who), log_file)


def the_digests_are_taken_out(world: World, rng: random.Random) -> None:
    """As an older version would have written it."""
    header, log_file = read(world, rng.randint(1, LENGTH - 1))
    content = codec.decode("", log_file, world.table.paths)
    assert content.x is not None
    mark = msgspec.structs.replace(content.x, digest="")
    plain = msgspec.structs.replace(header, before="", content="", why="forged")
    write(world, plain, codec.with_mark(log_file, mark))


def all_is_chained_anew(world: World, rng: random.Random) -> None:
    """By somebody with this very code: no object contradicts another one."""
    paths, first = world.table.paths, rng.randint(1, LENGTH)
    for seq in range(first, LENGTH + 1):
        header, log_file = read(world, seq)
        if seq == first:
            header = msgspec.structs.replace(header, why="forged")
        before = link(world, seq - 1) if seq > 1 else None
        mark = codec.decode("", log_file, paths).x
        digest = "" if before is None else before.digest
        made = chain.link(header, log_file, mark, digest, paths)
        write(world, made.header, made.log_file)


def link(world: World, seq: int) -> chain.Link:
    header, log_file = read(world, seq)
    paths = world.table.paths
    mark = codec.decode(header.log, log_file, paths).x
    return chain.link_of(world.store.objects[paths.txn(seq)][0], header, log_file, mark, paths)


Tampering = Callable[[World, random.Random], None]
BY_ITSELF: list[Tampering] = [
    one_is_deleted,
    two_change_places,
    a_log_file_is_changed,
    a_log_file_is_changed_with_its_digest,
    somebody_else_did_it,
    the_digests_are_taken_out,
]
"""Found by the chain alone."""
BY_WITNESS: list[Tampering] = [its_end_is_cut_off, all_is_chained_anew]
"""Of which nothing is to be seen in the bucket."""


def test_a_history_that_nobody_has_touched_is_found_whole() -> None:
    world = lived()
    seen = witness(world)
    assert seen.seq == LENGTH
    append(world, 100)
    drop(world, "day=0")
    assert verify(world, seen, witness(world)).healthy


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_done_to_a_history_is_found(seed: int) -> None:
    rng, world = random.Random(seed), lived()
    seen = witness(world)
    tampering = rng.choice([*BY_ITSELF, *BY_WITNESS])
    tampering(world, rng)
    report = verify(world, seen)
    assert not report.healthy, tampering.__name__
    assert all(finding.next_step for finding in report.findings)


@pytest.mark.long
@pytest.mark.parametrize("tampering", BY_ITSELF, ids=lambda each: each.__name__)
def test_most_of_it_without_a_witness(tampering: Tampering) -> None:
    world = lived()
    tampering(world, random.Random(1))
    assert not verify(world).healthy


@pytest.mark.parametrize("tampering", BY_WITNESS, ids=lambda each: each.__name__)
def test_and_the_rest_by_a_witness_alone(tampering: Tampering) -> None:
    world = lived()
    seen = witness(world)
    tampering(world, random.Random(1))
    assert not {"txn-chain", "txn-changed", "txn-gap"} & verify(world).kinds.keys()
    found = verify(world, seen).kinds
    assert found.keys() & {"txn-replaced", "txn-cut-off"}


def test_a_commit_after_a_forged_transaction_does_not_hide_it() -> None:
    world = lived()
    somebody_else_did_it(world, random.Random(1))
    append(world, 100)
    drop(world, "day=0")
    assert verify(world).kinds["txn-changed"]


def test_a_published_log_file_that_is_changed_alone_is_found() -> None:
    world = lived()
    header, log_file = read(world, LENGTH)
    world.store.objects[header.log] = (with_other_rows(world, log_file), world.clock.now)
    assert verify(world).kinds["log-changed"] == 1


def test_a_commit_takes_no_request_more_for_the_chain() -> None:
    world = lived(1)
    append(world, 100)
    store = FaultyStore(world.store)
    table = replace(world.table, store=store)
    base = take_base(table)
    assert base.snapshot.digest == witness(world).digest
    read = len(store.calls)
    assert digest_of(table, base) == base.snapshot.digest
    assert len(store.calls) == read


def test_a_transaction_of_an_older_version_is_linked_by_one_request_more() -> None:
    """Its log file does not have its digest; its header gives it."""
    world = lived(2)
    header, log_file = read(world, 2)
    content = codec.decode("", log_file, world.table.paths)
    assert content.x is not None
    mark = msgspec.structs.replace(content.x, digest="")
    plain = msgspec.structs.replace(header, before="", content="")
    write(world, plain, codec.with_mark(log_file, mark))
    append(world, 100)
    drop(world, "day=0")
    assert read(world, 3)[0].before == link(world, 2).digest
    assert verify(world).healthy


def test_a_witness_from_before_the_retention_shows_nothing_and_says_so() -> None:
    world = lived()
    old = Witness("t", 1, "0" * 64)
    for seq in (1, 2):
        del world.store.objects[world.table.paths.txn(seq)]
    # Retention would have left them, which is another finding.
    assert verify(world, old).kinds == {"witness-old": 1, "txn-gap": 1}


def test_witnesses_are_read_out_of_any_text() -> None:
    one, other = Witness("t", 7, "a" * 64), Witness("u", 8, "b" * 64)
    text = f"Dear diary,\n  {other}\n> {one} (from the ticket)\n"
    assert parse_witnesses([text, str(one)], "t") == (one,)
    with pytest.raises(UsageError, match="no witness of table v"):
        parse_witnesses([text], "v")


@pytest.mark.parametrize(
    "text",
    [
        "garbage",
        "",
        "Monday\nfirnline-witness table=t transaction=8 digest=abc",
        "firnline-witness table=t transaction=eight digest=" + "a" * 64,
        str(Witness("t", 8, "a" * 64))[:-1],
    ],
)
def test_what_is_no_witness_is_refused_beside_one(text: str) -> None:
    """Otherwise a check would be green that has not looked at it."""
    with pytest.raises(UsageError, match="is no witness"):
        parse_witnesses([str(Witness("t", 7, "a" * 64)), text], "t")


def numbers(world: World) -> list[int]:
    return [header.seq for header in history(world.table)]


def test_one_that_another_has_replaced_breaks_the_chain_and_is_still_shown() -> None:
    """Only below a downgrade may it be that of a process that slept."""
    world = lived()
    header, log_file = read(world, 3)
    mark = codec.decode("", log_file, world.table.paths).x
    assert mark is not None
    txn = world.ids.uuid7(world.clock.now)
    log = world.table.paths.txn_log(header.t, 3, txn)
    other = msgspec.structs.replace(header, txn=txn, log=log)
    data = codec.with_mark(log_file, msgspec.structs.replace(mark, txn=txn))
    world.store.objects[world.table.paths.txn(3)] = (txn_file.encode(other, data), world.clock.now)
    assert {"txn-chain", "txn-without-effect"} <= verify(world).kinds.keys()
    assert numbers(world) == list(range(LENGTH, 0, -1))


def test_a_history_shows_what_came_before_one_that_is_lost() -> None:
    world = lived()
    del world.store.objects[world.table.paths.txn(4)]
    assert numbers(world) == [7, 6, 5, 3, 2, 1]
