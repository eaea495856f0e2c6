"""Certificates of erases: whatever is done to them behind the table's back, verify finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from firnline.commit.base import take_base
from firnline.log import codec
from firnline.log.erases import without_erases
from firnline.log.txn_file import RunIdentity
from firnline.operations.clone.run import run_clone
from firnline.operations.erase import digests
from firnline.operations.erase import run as erasing
from firnline.operations.erase.certificate import Certificate, list_certificates
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import EraseReport, run_erase
from firnline.operations.operation import Work
from firnline.operations.options import (
    CloneOptions,
    EraseOptions,
    RelocateOptions,
    VerifyOptions,
)
from firnline.operations.relocate.run import run_relocate
from firnline.operations.verify.run import VerifyReport, run_verify
from firnline.paths import TablePaths
from firnline.state.history import newest_head
from firnline.state.witness import Witness
from tests.support.effort import FULL
from tests.support.histories import append, clean_up, drop, filled
from tests.support.moving import beside, copied
from tests.support.world import FaultyStore, World

SEEDS = 500 if FULL else 12
ERASES = 3
DAY = 86_400_000
RUN = RunIdentity(run_id="r", user="ana")


def no_engine() -> Any:
    raise AssertionError("no part holds these keys")


def erase(world: World, key: int, store: FaultyStore | None = None) -> EraseReport:
    """An erase of a key that no part holds: it commits its record, and reads none."""
    world.clock.advance(10)
    table = world.table if store is None else replace(world.table, store=store)
    options = EraseOptions(columns=("id",), keys=((key,),))
    return run_erase(Work(table, RUN, no_engine), options)


def lived(erases: int = ERASES) -> World:
    """Erases with other transactions between them; the first one is complete."""
    world = filled(1)
    for number in range(erases):
        first = erase(world, 1_000_000 + number)
        append(world, 6 * number + 6)
        drop(world, f"day={number % 2}")
        if not number:
            world.clock.advance(3 * DAY)
            assert first.certificate is not None
            done = complete_certificate(world.table, first.certificate, RUN)
            assert done.status == "complete"
    return world


def keys_of(world: World, ending: str = ".json") -> list[str]:
    """Objects of the erases, the oldest first: of one kind, or without the plans."""
    found = [key for key in world.store.objects if "/_erase/" in key and key.endswith(ending)]
    plans = ".plan" not in ending
    return sorted(key for key in found if not (plans and key.endswith(".plan.json")))


def read(world: World, key: str) -> Certificate:
    return msgspec.json.decode(world.store.objects[key][0], type=Certificate)


def put(world: World, key: str, certificate: Certificate, *, again: bool = True) -> None:
    """Overwrite a certificate, with a digest that fits if it is made ``again``."""
    if again:
        certificate = digests.sealed(certificate, world.table.paths)
    world.store.objects[key] = (msgspec.json.encode(certificate), world.clock.now)


def verify(world: World, *seen: str) -> VerifyReport:
    return run_verify(Work(world.table), VerifyOptions(witness=seen))


def kinds(world: World, *seen: str) -> set[str]:
    return {f.kind for f in verify(world, *seen).findings if f.severity != "note"}


def of_one(world: World, rng: random.Random, change: Callable[[Certificate], Certificate]) -> None:
    key = rng.choice(keys_of(world))
    put(world, key, change(read(world, key)))


def one_is_deleted(world: World, rng: random.Random) -> None:
    """With its plan and what completed it, as if there had been no such erase."""
    erase = rng.choice(list_certificates(world.table)).id
    for key in [key for key in world.store.objects if erase in key]:
        del world.store.objects[key]


def the_certificate_alone_is_deleted(world: World, rng: random.Random) -> None:
    erase = rng.choice(list_certificates(world.table)).id
    paths = world.table.paths
    del world.store.objects[paths.certificate(erase)]
    world.store.objects.pop(paths.erase_plan(erase))


def a_byte_is_changed(world: World, rng: random.Random) -> None:
    """A digit of a time, so that it reads as before."""
    key = rng.choice(keys_of(world))
    found = read(world, key)
    put(world, key, msgspec.structs.replace(found, planned_ms=found.planned_ms + 1), again=False)


def its_columns_are_changed(world: World, rng: random.Random) -> None:
    of_one(world, rng, lambda c: msgspec.structs.replace(c, columns=("other",)))


def its_keys_are_changed(world: World, rng: random.Random) -> None:
    of_one(world, rng, lambda c: msgspec.structs.replace(c, digest="0" * 64))


def its_time_is_changed(world: World, rng: random.Random) -> None:
    def earlier(c: Certificate) -> Certificate:
        assert c.replaced is not None
        return msgspec.structs.replace(
            c, replaced=msgspec.structs.replace(c.replaced, t=c.replaced.t - 1)
        )

    of_one(world, rng, earlier)


def it_is_unchained(world: World, rng: random.Random) -> None:
    """As an older version would have written it."""
    of_one(world, rng, lambda c: msgspec.structs.replace(c, link=None, head=None))


def its_digest_is_taken_out(world: World, rng: random.Random) -> None:
    key = rng.choice(keys_of(world))
    put(world, key, msgspec.structs.replace(read(world, key), sha256=""), again=False)


def it_certifies_another_history(world: World, rng: random.Random) -> None:
    def other(c: Certificate) -> Certificate:
        assert c.head is not None
        return msgspec.structs.replace(c, head=msgspec.structs.replace(c.head, digest="0" * 64))

    of_one(world, rng, other)


def two_change_places(world: World, rng: random.Random) -> None:
    one, other = rng.sample([listed.id for listed in list_certificates(world.table)], 2)
    paths, objects = world.table.paths, world.store.objects
    for key in (paths.certificate, paths.erase_plan):
        objects[key(one)], objects[key(other)] = objects[key(other)], objects[key(one)]


def two_change_numbers(world: World, rng: random.Random) -> None:
    paths = world.table.paths
    ids = rng.sample([listed.id for listed in list_certificates(world.table)], 2)
    one, other = (paths.certificate(found) for found in ids)
    first, second = read(world, one), read(world, other)
    assert first.link is not None
    assert second.link is not None
    for key, found, number in (
        (one, first, second.link.number),
        (other, second, first.link.number),
    ):
        assert found.link is not None
        link = msgspec.structs.replace(found.link, number=number)
        put(world, key, msgspec.structs.replace(found, link=link))


def the_plan_is_changed(world: World, rng: random.Random) -> None:
    key = rng.choice(keys_of(world, ".plan.json"))
    put(world, key, msgspec.structs.replace(read(world, key), checked=("x",)), again=False)


def it_does_not_read(world: World, rng: random.Random) -> None:
    world.store.objects[rng.choice(keys_of(world))] = (b"{", world.clock.now)


Tampering = Callable[[World, random.Random], None]
TAMPERINGS: list[Tampering] = [
    one_is_deleted,
    the_certificate_alone_is_deleted,
    a_byte_is_changed,
    its_columns_are_changed,
    its_keys_are_changed,
    its_time_is_changed,
    it_is_unchained,
    its_digest_is_taken_out,
    it_certifies_another_history,
    two_change_places,
    two_change_numbers,
    the_plan_is_changed,
    it_does_not_read,
]


def test_certificates_that_nobody_has_touched_are_found_whole() -> None:
    world = lived()
    assert kinds(world) == set()


def test_certificates_are_numbered_and_name_the_history_that_they_certify() -> None:
    world = lived()
    found = [
        read(world, world.table.paths.certificate(c.id)) for c in list_certificates(world.table)
    ]
    links = [c.link for c in found]
    assert [link.number for link in links if link] == [1, 2, 3]
    assert links[0] is not None
    assert links[0].before == ""
    for one, later in itertools.pairwise(links):
        assert one is not None
        assert later is not None
        assert later.before == one.digest
    for certificate in found:
        assert certificate.replaced is not None
        assert certificate.head is not None
        assert certificate.head.seq == certificate.replaced.seq
    (done,) = keys_of(world, ".complete.json")
    complete = read(world, done)
    assert complete.link == links[0]
    assert complete.head is not None
    assert complete.head.seq == 2  # the drop after it: the state that was looked through


@pytest.mark.long
@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda each: each.__name__)
def test_whatever_is_done_to_a_certificate_is_found(tampering: Tampering) -> None:
    world = lived()
    tampering(world, random.Random(1))
    report = verify(world)
    assert not report.healthy
    assert all(finding.next_step for finding in report.findings)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_it_is_found_whichever_certificate_it_is_and_whatever_comes_after(seed: int) -> None:
    rng, world = random.Random(seed), lived()
    tampering = rng.choice(TAMPERINGS)
    tampering(world, rng)
    if rng.random() < 0.5:
        erase(world, 2_000_000)
        append(world, 600)
        drop(world, "day=0")
    # An erase of just now may not have written its certificate yet.
    world.clock.advance(world.table.settings.commit_ttl + 1)
    assert not verify(world).healthy, tampering.__name__


def test_a_certificate_is_checked_when_its_transaction_is_past_its_retention() -> None:
    world = lived()
    paths = world.table.paths
    gone = [key for key in world.store.objects if key.startswith(paths.txn_dir)]
    for key in gone:
        del world.store.objects[key]
    assert not {k for k in kinds(world) if k.startswith("certificate")}
    its_keys_are_changed(world, random.Random(1))
    assert "certificate-changed" in kinds(world)


def test_the_newest_certificate_is_missed_by_the_log_alone() -> None:
    world = lived()
    last = list_certificates(world.table)[-1].id
    for key in [key for key in world.store.objects if last in key or "/_txn/" in key]:
        del world.store.objects[key]
    world.clock.advance(DAY)
    assert "certificate-missing" in kinds(world)


def test_a_folded_log_keeps_the_newest_erase_alone() -> None:
    world = lived()
    clean_up(world)
    clean_up(world)
    base = take_base(world.table, everything=True)
    text = b"".join(b"\n".join(c.other) for c in base.snapshot.contents.values())
    assert text.count(b'{"erase"') == 1
    erase(world, 3_000_000)
    assert verify(world).kinds.keys() <= {"log-leftover"}


def test_certificates_of_versions_without_a_chain_are_accepted_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = filled(1)
    with monkeypatch.context() as patched:
        patched.setattr(erasing, "PlannedErase", lambda *_: None)
        erase(world, 1_000_000)
    erase(world, 1_000_001)
    report = verify(world)
    assert report.healthy
    (note,) = [f for f in report.findings if f.kind.startswith("certificate")]
    assert (note.kind, note.severity) == ("certificate-unchained", "note")


def test_a_chain_that_a_client_of_version_1_has_folded_away_goes_on() -> None:
    """Its numbers are those of the certificates then."""
    world = lived()
    paths, objects = world.table.paths, world.store.objects
    for key in [key for key in objects if key.startswith(paths.log_dir)]:
        data, modified = objects[key]
        objects[key] = (without_erase(data), modified)
    report = erase(world, 2_000_000)
    assert report.certificate is not None
    found = read(world, paths.certificate(report.certificate))
    assert found.link is not None
    assert found.link.number == ERASES + 1


def without_erase(data: bytes) -> bytes:
    content = codec.decode("", data, TablePaths("t"))
    return codec.encode(msgspec.structs.replace(content, other=without_erases(content.other)))


def test_a_relocated_table_keeps_its_certificates_and_their_digests() -> None:
    world = copied(lived())
    run_relocate(Work(world.table), RelocateOptions())
    assert not {kind for kind in kinds(world) if kind.startswith("certificate")}
    erase(world, 2_000_000)
    its_keys_are_changed(world, random.Random(1))
    assert "certificate-changed" in kinds(world)


@pytest.mark.parametrize("history", [True, False])
def test_a_clone_has_the_certificates_of_its_history(history: bool) -> None:
    world = lived()
    target = beside(world.table, "c")
    run_clone(Work(world.table, RUN), CloneOptions(history=history), target=target)
    clone = replace(world, settings=target.settings, table=target)
    assert kinds(clone) == set()
    report = erase(clone, 2_000_000)
    assert report.certificate is not None
    found = read(clone, target.paths.certificate(report.certificate))
    assert found.link is not None
    assert found.link.number == (ERASES + 1 if history else 1)


def test_two_erases_at_once_have_both_their_places() -> None:
    """The second is planned before the first commits."""
    world = filled(1)

    class Beside(FaultyStore):
        done = False

        def put_new(self, key: str, data: bytes) -> None:
            if "/_txn/" in key and not self.done:
                self.done = True
                erase(world, 1_000_001)
            super().put_new(key, data)

    erase(world, 1_000_000, Beside(world.store))
    found = [read(world, key) for key in keys_of(world)]
    assert sorted(c.link.number for c in found if c.link) == [1, 2]
    assert verify(world).healthy
    world.clock.advance(3 * DAY)
    for certificate in found:
        assert complete_certificate(world.table, certificate.id, RUN).status == "complete"
    assert verify(world).healthy


def test_an_erase_takes_no_request_more_for_the_chain() -> None:
    world = lived(2)
    store = FaultyStore(world.store)
    erase(world, 1_000_009, store)
    asked = [call.partition(" ")[0] for call in store.calls if "/_erase/" in call]
    # The listing that looks for runs that died, the plan, the certificate; the keys were not read.
    assert sorted(asked) == ["list", "put", "put"]


def test_a_run_that_died_before_its_certificate_gets_it_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = lived(1)

    class Died(BaseException):
        pass

    def die(*_: object, **__: object) -> Any:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "Replaced", die)
        with pytest.raises(Died):
            erase(world, 1_000_005)
    assert verify(world).healthy  # it may be about to write it
    world.clock.advance(DAY)
    report = verify(world)
    assert report.healthy
    assert report.kinds["certificate-late"] == 1
    erase(world, 1_000_006)
    assert "certificate-late" not in verify(world).kinds
    found = [read(world, key) for key in keys_of(world) if ".complete" not in key]
    assert [c.link.number for c in found if c.link] == [1, 2, 3]
    assert all(c.head is not None and c.head.seq == c.replaced.seq for c in found if c.replaced)


def test_a_plan_that_was_changed_before_its_certificate_is_not_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = lived(1)

    class Died(BaseException):
        pass

    def die(*_: object, **__: object) -> Any:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "Replaced", die)
        with pytest.raises(Died):
            erase(world, 1_000_005)
    key = keys_of(world, ".plan.json")[-1]
    put(world, key, msgspec.structs.replace(read(world, key), keys=77), again=False)
    world.clock.advance(DAY)
    erase(world, 1_000_006)
    assert "certificate-changed" in kinds(world)


def test_a_complete_certificate_is_its_own_witness() -> None:
    """Who notes it outside of the bucket can show that it was written anew."""
    world = lived()
    (key,) = keys_of(world, ".complete.json")
    seen = str(digests.witness("t", read(world, key)))
    head = newest_head(world.table)
    assert head is not None
    assert kinds(world, seen, str(Witness("t", head.seq, head.digest))) == set()
    forged = read(world, key)
    put(world, key, msgspec.structs.replace(forged, completed_ms=(forged.completed_ms or 0) - 1))
    assert kinds(world) == set()
    assert kinds(world, seen) == {"certificate-changed"}
    del world.store.objects[key]
    assert kinds(world, seen) == {"certificate-missing"}
