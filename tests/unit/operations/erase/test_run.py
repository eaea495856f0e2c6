"""Erases on real parts in memory: rows go from every part, and the certificate says what became."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from firnline.appends.append import Appender
from firnline.clock import SystemClock
from firnline.errors import StoreUnavailableError, UsageError
from firnline.kernel.local import LocalEngine
from firnline.log.txn_file import RunIdentity
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.erase import run as erasing
from firnline.operations.erase.certificate import Certificate, Listed, list_certificates
from firnline.operations.erase.completion import Settled, complete_certificate
from firnline.operations.erase.keys import key_set
from firnline.operations.erase.proof import ShownKeys
from firnline.operations.erase.run import EraseFailedError, EraseReport, preview, run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import CleanupOptions, EraseOptions, MergeOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from tests.support.log_tables import snapshot, v1_live
from tests.support.reading import stored_ids, visible_ids
from tests.support.world import Asleep, World, make_world

RUN = RunIdentity(run_id="r", user="ana")
HOUR = 3_600_000
DAY = 24 * HOUR
SECRET = "u-personal-7"


def world_of(**settings: Any) -> World:
    """Four appends of six ids, user ``u-personal-{id % 10}``."""
    world = make_world(partition_by=["day"], sort_by=["id"], **settings)
    for first in range(0, 24, 6):
        append(world, range(first, first + 6))
    return world


def append(world: World, ids: range) -> None:
    world.clock.advance(10)
    Appender(world.table).append(rows(ids))


def rows(ids: range) -> pa.Table:
    users = [f"u-personal-{i % 10}" for i in ids]
    return pa.table({"id": list(ids), "day": [i % 2 for i in ids], "user": users})


def engine_of(world: World, scratch: Path) -> LocalEngine:
    return LocalEngine(lambda: world.store, scratch, world.ids, SystemClock())


Erase = Callable[..., EraseReport]


@pytest.fixture
def erase(tmp_path: Path) -> Erase:
    def call(world: World, *users: str, **options: Any) -> EraseReport:
        keys = tuple((user,) for user in users)
        asked = EraseOptions(**{"columns": ("user",), "keys": keys, **options})
        return run_erase(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), asked)

    return call


def left(certificate: Certificate) -> dict[str, int]:
    found: Counter[str] = Counter()
    for entry in certificate.remaining:
        found[entry.kind] += entry.count
    return dict(found)


def complete(world: World, report: EraseReport) -> Certificate:
    assert report.certificate is not None
    return complete_certificate(world.table, report.certificate, RUN)


def settle_everything(world: World) -> None:
    """Let the grace and the time of late appends pass."""
    world.clock.advance(3 * DAY)


def names_of(world: World) -> set[str]:
    """Names of the objects, without their folders."""
    return {key.rpartition("/")[2] for key in world.store.objects}


def test_rows_of_the_keys_go_from_every_part(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET, "u-personal-3")
    assert report.counts.rows_deleted == 5
    expected = Counter(i for i in range(24) if i % 10 not in {3, 7})
    assert visible_ids(world.table) == stored_ids(world.table) == expected
    assert v1_live(world) == set(snapshot(world).live)
    assert (report.keys, report.deletes, report.transaction) == (2, 1, 1)


def test_parts_without_a_key_stay_as_they_are(erase: Erase) -> None:
    world = world_of()
    before = set(snapshot(world).live)
    report = erase(world, SECRET)
    assert len(before - set(snapshot(world).live)) == report.parts_rewritten == 2
    assert report.parts_read == 8


@pytest.mark.long
def test_statistics_of_a_sort_column_spare_reading(erase: Erase) -> None:
    world = world_of()
    report = erase(world, columns=("id",), keys=((3,), ("21",)))
    assert (report.parts_read, report.parts_excluded, report.parts_rewritten) == (4, 4, 2)
    assert stored_ids(world.table) == Counter(set(range(24)) - {3, 21})


@pytest.mark.long
def test_the_certificate_waits_for_the_grace_and_says_until_when(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    found = complete(world, report)
    assert found.status == "waiting"
    assert left(found)["replaced part"] == 2
    (waits,) = [entry for entry in found.remaining if entry.kind == "replaced part"]
    assert found.replaced is not None
    assert waits.until_ms == found.replaced.t + world.settings.cleanup.grace
    assert [part.rows for part in found.parts] == [1, 1]
    assert all(part.gone_ms is None for part in found.parts)


def test_after_the_grace_the_replaced_parts_are_deleted_and_certified(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    replaced = {part.key for part in complete(world, report).parts}
    assert len(replaced) == 2
    assert replaced <= names_of(world)
    settle_everything(world)
    found = complete(world, report)
    assert found.status == "complete"
    assert set(left(found)) == {"log text"}
    assert all(part.gone_ms == world.clock.now for part in found.parts)
    assert not replaced & names_of(world)
    assert set(snapshot(world).live) <= world.store.objects.keys()
    assert found.completed_by == RUN


def test_parts_that_a_clean_up_deleted_are_certified_too(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    settle_everything(world)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    found = complete(world, report)
    assert found.status == "complete"
    assert all(part.gone_ms for part in found.parts)


@pytest.mark.long
def test_a_clean_up_goes_on_after_a_certificate_deleted_its_parts(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    settle_everything(world)
    complete(world, report)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert snapshot(world).purged > 0
    assert visible_ids(world.table)[7] == 0
    assert complete(world, report).status == "complete"


@pytest.mark.long
def test_a_complete_certificate_is_never_written_again(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    settle_everything(world)
    first = complete(world, report)
    before = dict(world.store.objects)
    world.clock.advance(DAY)
    again = complete(world, report)
    assert again.completed_ms == first.completed_ms
    assert world.store.objects == before


@pytest.mark.long
def test_no_key_stands_in_the_certificate_or_stays_in_a_file(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    settle_everything(world)
    complete(world, report)
    kept = {k: data for k, (data, _) in world.store.objects.items() if "/_erase/" in k}
    assert [k.partition(".")[2] for k in sorted(kept)] == ["complete.json", "json", "plan.json"]
    assert not [k for k, data in kept.items() if SECRET.encode() in data]
    assert SECRET not in json.dumps(report.to_json())


@pytest.mark.parametrize(("grace", "days"), [("3d", 7), ("20d", 21)])
def test_text_in_transactions_stays_until_they_may_be_deleted(
    erase: Erase, grace: str, days: int
) -> None:
    world = world_of(cleanup={"grace": grace})
    found = complete(world, erase(world, SECRET))
    (waits,) = [e for e in found.remaining if e.kind == "log text" and "/_txn/" in e.objects[0]]
    assert found.replaced is not None
    key = world.table.paths.txn(found.replaced.seq)
    assert waits.until_ms == world.store.objects[key][1] + days * DAY


@pytest.mark.long
def test_the_text_of_the_log_that_holds_keys_is_named(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    settle_everything(world)
    named = {
        key
        for entry in complete(world, report).remaining
        for key in entry.objects
        if entry.kind == "log text"
    }
    holding = {
        k
        for k, (data, _) in world.store.objects.items()
        if SECRET.encode() in data and ("/_log/" in k or "/_txn/" in k)
    }
    assert holding
    assert holding <= named


def test_a_checkpoint_that_holds_the_keys_is_named_until_it_is_gone(erase: Erase) -> None:
    world = world_of(checkpoint={"min_parts": 1})
    report = erase(world, SECRET)
    (written,) = (k for k in world.store.objects if "/_ckpt/" in k)

    def named() -> set[str]:
        return {key for entry in complete(world, report).remaining for key in entry.objects}

    assert written in named()
    world.store.objects[written] = (b"cut", world.clock.now)
    assert written in named()
    del world.store.objects[written]
    assert written not in named()


def test_the_digest_has_a_secret_that_is_told_once_and_stored_nowhere(erase: Erase) -> None:
    world = world_of()
    one, other = erase(world, "a", "b", "a"), erase(world, "b", "a")
    assert one.secret is not None
    assert one.keys == 2
    assert one.digest != other.digest
    keys = key_set(("user",), [("b",), ("a",)], snapshot(world).schema, "the test")
    assert keys.digest(one.secret) == one.digest == complete(world, one).digest
    assert keys.digest("") not in {one.digest, other.digest}
    stored = b"".join(data for data, _ in world.store.objects.values())
    assert one.secret.encode() not in stored


@pytest.mark.long
def test_a_dry_run_has_neither_digest_nor_secret(erase: Erase) -> None:
    report = erase(world_of(), "a", dry_run=True)
    assert (report.digest, report.secret) == (None, None)


def test_the_report_of_a_dag_has_no_secret_because_it_is_shown(tmp_path: Path) -> None:
    world = world_of()
    asked = EraseOptions(columns=("user",), keys=((SECRET,),))
    run = RunIdentity(dag_id="erase", run_id="r")
    report = run_erase(Work(world.table, run, lambda: engine_of(world, tmp_path)), asked)
    assert report.secret is None
    assert report.digest


def shown(tmp_path: Path, secret: str | None, *users: str) -> ShownKeys:
    path = tmp_path / "shown.csv"
    path.write_text("\n".join(("user", *users)))
    assert secret is not None
    return ShownKeys(str(path), secret)


@pytest.mark.long
def test_keys_and_secret_show_whose_certificate_it_is(erase: Erase, tmp_path: Path) -> None:
    world = world_of()
    report = erase(world, SECRET, "b")
    assert report.certificate is not None
    for secret, users, said in (
        (report.secret, (SECRET,), "are not those of certificate"),
        ("0" * 64, (SECRET, "b"), "are not those of certificate"),
        (" ", (SECRET, "b"), "without its secret"),
        ("x", (SECRET, "b"), "has 64 hexadecimal digits"),
    ):
        with pytest.raises(UsageError, match=said):
            complete_certificate(
                world.table, report.certificate, RUN, shown(tmp_path, secret, *users)
            )
    proof = shown(tmp_path, report.secret, "b", SECRET)
    found = complete_certificate(world.table, report.certificate, RUN, proof)
    assert found.status == "waiting"


@pytest.mark.long
def test_rows_of_an_append_that_began_before_are_hidden_and_reported(
    erase: Erase, tmp_path: Path
) -> None:
    world = world_of()
    reports: list[EraseReport] = []

    def late() -> Iterator[pa.RecordBatch]:
        yield from rows(range(27, 29)).to_batches()
        reports.append(erase(world, SECRET))
        world.clock.advance(10)

    Appender(world.table).append(late())
    assert visible_ids(world.table)[27] == 0
    assert stored_ids(world.table)[27] == 1
    settle_everything(world)
    found = complete(world, reports[0])
    assert found.status == "waiting"
    # Both partitions of the append: nobody read them, and their statistics do not say.
    assert left(found)["late part"] == 2
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    assert stored_ids(world.table)[27] == 0
    assert "late part" not in left(complete(world, reports[0]))
    settle_everything(world)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert complete(world, reports[0]).status == "complete"


def test_appends_that_may_still_land_are_waited_for(erase: Erase) -> None:
    world = world_of(cleanup={"grace": "1h"})
    report = erase(world, SECRET)
    world.clock.advance(2 * HOUR)
    found = complete(world, report)
    assert (found.status, set(left(found))) == ("waiting", {"late append", "log text"})
    world.clock.advance(5 * HOUR)
    assert complete(world, report).status == "complete"


@pytest.mark.long
def test_rows_that_came_after_the_erase_do_not_matter(erase: Erase) -> None:
    world = world_of()
    report = erase(world, SECRET)
    append(world, range(27, 28))
    settle_everything(world)
    assert complete(world, report).status == "complete"
    assert visible_ids(world.table)[27] == 1


def test_versions_from_before_that_are_not_deleted_yet_are_named(
    erase: Erase, tmp_path: Path
) -> None:
    world = world_of()
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    report = erase(world, SECRET)
    settle_everything(world)
    found = complete(world, report)
    assert (found.status, left(found)["older part"]) == ("waiting", 8)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert complete(world, report).status == "complete"


@pytest.mark.long
def test_an_object_that_no_log_file_names_is_an_orphan_that_may_hold_keys(erase: Erase) -> None:
    world = world_of()
    left_over = world.table.paths.data_part("day=1", world.ids.uuid7(world.clock.now))
    world.store.objects[left_over] = (b"who knows", world.clock.now)
    report = erase(world, SECRET)
    settle_everything(world)
    found = complete(world, report)
    assert found.status == "waiting"
    (orphan,) = [entry for entry in found.remaining if entry.kind == "orphan"]
    assert orphan.objects == (left_over,)
    assert orphan.next_step.startswith("run `firnline sweep t --delete` from ")
    del world.store.objects[left_over]
    assert complete(world, report).status == "complete"


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        ({"append": {"ttl": "5h"}, "commit_ttl": "3h"}, 5),
        ({"append": {"ttl": "3h"}, "commit_ttl": "5h"}, 5),
    ],
    ids=["append.ttl", "commit_ttl"],
)
def test_an_orphan_waits_until_whoever_began_before_the_erase_can_publish_no_more(
    settings: dict[str, Any], hours: int, erase: Erase
) -> None:
    """By appends and by runs: whichever may take longer. Of later objects the footer decides."""
    world = world_of(**settings)
    left_over = world.table.paths.data_part("day=1", world.ids.uuid7(world.clock.now))
    world.store.objects[left_over] = (b"who knows", world.clock.now)
    report = erase(world, SECRET)
    replaced = complete(world, report).replaced
    assert replaced is not None
    end = replaced.t + hours * HOUR
    before, after = written_around(world, end)

    def orphans() -> list[tuple[tuple[str, ...], int | None]]:
        entries = [e for e in complete(world, report).remaining if e.kind == "orphan"]
        return [(entry.objects, entry.until_ms) for entry in entries]

    early, later = tuple(sorted([left_over, before])), (after,)
    world.clock.now = end - 1
    assert orphans() == [(early, end), (later, None)]
    world.clock.now = end
    assert orphans() == [(early, None), (later, None)]


def written_around(world: World, end: int) -> tuple[str, str]:
    """Objects that no log file names: of the last moment before ``end``, and of ``end``."""
    keys = [world.table.paths.data_part("day=0", world.ids.uuid7(t)) for t in (end - 1, end)]
    for key, t in zip(keys, (end - 1, end), strict=True):
        world.store.objects[key] = (b"who knows", t)
    return keys[0], keys[1]


@pytest.mark.long
def test_a_part_that_does_not_read_is_a_listed_remainder(erase: Erase) -> None:
    world = world_of()
    broken = next(k for k, m in snapshot(world).live.items() if m.stats()["id"][0] == 1)
    whole = world.store.objects[broken]
    world.store.objects[broken] = (whole[0][:-9], whole[1])
    with pytest.raises(EraseFailedError) as raised:
        erase(world, SECRET, "u-personal-1")
    report = raised.value.report
    assert (report.parts_failed, report.failures[0].key) == (1, broken)
    assert report.parts_rewritten == 3
    settle_everything(world)
    found = complete(world, report)
    (unread,) = [entry for entry in found.remaining if entry.kind == "unread part"]
    assert (found.status, unread.objects) == ("waiting", (broken,))
    world.store.objects[broken] = whole
    again = erase(world, SECRET, "u-personal-1")
    assert again.parts_failed == 0
    assert stored_ids(world.table) == Counter(i for i in range(24) if i % 10 not in {1, 7})


class DiedError(BaseException):
    """The process dies."""


def die_after_the_commit(world: World, erase: Erase, monkeypatch: pytest.MonkeyPatch) -> Listed:
    """Erase, and die before the certificate is written."""

    def die(*_: object, **__: object) -> Any:
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "Replaced", die)
        with pytest.raises(DiedError):
            erase(world, SECRET)
    (listed,) = list_certificates(world.table)
    return listed


@pytest.mark.long
def test_a_run_that_died_after_its_commit_is_certified_by_the_next(
    erase: Erase, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()
    listed = die_after_the_commit(world, erase, monkeypatch)
    assert listed.status == "planned"
    again = erase(world, SECRET)
    assert again.settled == (listed.id,)
    settle_everything(world)
    found = complete_certificate(world.table, listed.id, RUN)
    assert (found.status, len(found.parts)) == ("complete", 2)
    assert found.replaced is not None
    assert found.replaced.seq == 1


@pytest.mark.long
def test_a_run_that_died_is_certified_by_its_own_transaction_long_after_another_folded_its_records(
    erase: Erase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = world_of()
    listed = die_after_the_commit(world, erase, monkeypatch)
    with monkeypatch.context() as patched:  # it looked before the other one had committed
        patched.setattr(erasing, "settle", lambda *_: Settled((), None))
        assert erase(world, "u-personal-8").transaction == 2
    settle_everything(world)
    append(world, range(24, 30))
    run_merge(Work(world.table, RUN, lambda: engine_of(world, tmp_path)), MergeOptions())
    settle_everything(world)
    run_cleanup(Work(world.table, RUN), CleanupOptions())
    assert not snapshot(world).deletes
    found = complete_certificate(world.table, listed.id, RUN)
    assert found.replaced is not None
    assert found.replaced.seq == 1
    assert found.link is not None
    assert found.link.id == listed.id
    assert not [
        f
        for f in run_verify(Work(world.table), VerifyOptions()).findings
        if f.kind.startswith("certificate")
    ]


def test_a_plan_that_was_never_committed_becomes_void_and_proves_no_other_keys(
    erase: Erase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()

    class Died(BaseException):
        pass

    def die(*_: object, **__: object) -> Any:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "commit", die)
        with pytest.raises(Died):
            erase(world, SECRET)
    (listed,) = list_certificates(world.table)
    assert complete_certificate(world.table, listed.id, RUN).status == "planned"
    settle_everything(world)
    assert complete_certificate(world.table, listed.id, RUN).status == "void"
    with pytest.raises(UsageError, match="are not those of certificate"):
        complete_certificate(world.table, listed.id, RUN, shown(tmp_path, "0" * 64, SECRET))


@pytest.mark.long
def test_an_erase_whose_plan_cannot_be_written_leaves_no_new_part(
    erase: Erase, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of()
    before = {key for key in world.store.objects if "/_data/" in key}

    def fail(*_: object) -> None:
        assert {key for key in world.store.objects if "/_data/" in key} > before
        raise StoreUnavailableError("the store is down", next_step="wait")

    with monkeypatch.context() as patched:
        patched.setattr(erasing, "write", fail)
        with pytest.raises(StoreUnavailableError):
            erase(world, SECRET)
    assert {key for key in world.store.objects if "/_data/" in key} == before


@pytest.mark.long
def test_keys_of_a_dead_run_are_deleted_once_it_cannot_commit_any_more(erase: Erase) -> None:
    world = world_of()
    key = world.table.paths.erase_keys(world.ids.uuid7(world.clock.now))
    world.store.objects[key] = (b"keys", world.clock.now)
    erase(world, SECRET)
    assert key in world.store.objects
    world.clock.advance(7 * HOUR)
    erase(world, SECRET)
    assert key not in world.store.objects


def test_a_dry_run_reads_the_keys_and_writes_nothing(erase: Erase) -> None:
    world = world_of()
    before = dict(world.store.objects)
    report = erase(world, SECRET, dry_run=True)
    assert (report.certificate, report.parts_read, report.dry_run) == (None, 8, True)
    asked = EraseOptions(columns=("id",), keys=((3,),))
    plan = preview(world.table, asked).to_json()
    assert (plan["keys"], plan["columns"], plan["parts_to_read"]) == (1, ["id"], 2)
    assert world.store.objects == before


@pytest.mark.long
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_keys_come_from_a_file(ending: str, erase: Erase, tmp_path: Path) -> None:
    world = world_of()
    table = pa.table({"note": ["x", "y"], "USER": [SECRET, "u-personal-3"]})
    path = tmp_path / f"keys.{ending}"
    if ending == "csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    report = erase(world, keys=(), keys_file=str(path))
    assert (report.keys, report.counts.rows_deleted) == (2, 5)


def test_keys_come_from_an_object_beside_the_table(erase: Erase, tmp_path: Path) -> None:
    world = world_of()
    path = tmp_path / "keys.parquet"
    pq.write_table(pa.table({"user": [SECRET]}), path)
    world.store.put_file("requests/keys.parquet", path)
    report = erase(world, keys=(), keys_file="memory://bucket/requests/keys.parquet")
    assert report.counts.rows_deleted == 2
    with pytest.raises(UsageError, match="is not in memory://bucket, where the table is"):
        erase(world, keys=(), keys_file="s3://other/keys.parquet")
    with pytest.raises(UsageError, match="a URL holds no credentials"):
        erase(world, keys=(), keys_file="s3://key:hush@bucket/keys.parquet")
    with pytest.raises(UsageError, match="is not there"):
        erase(world, keys=(), keys_file="memory://bucket/nowhere.parquet")


@pytest.mark.long
@pytest.mark.parametrize("keys", [[3, 7], (3, (7,)), {3, 7}, [[3], "7"]])
def test_values_of_one_column_stand_for_themselves(keys: Any, erase: Erase) -> None:
    world = world_of()
    assert erase(world, columns=("id",), keys=keys).counts.rows_deleted == 2
    assert stored_ids(world.table) == Counter(set(range(24)) - {3, 7})


@pytest.mark.parametrize("keys", ["ab", 17, {"id": 17}, None])
def test_keys_that_are_no_list_are_refused_without_being_shown(keys: Any) -> None:
    with pytest.raises(UsageError, match="the keys of an erase are no list") as raised:
        EraseOptions(columns=("id",), keys=keys)
    assert str(keys) not in raised.value.message or keys is None


def test_keys_of_several_columns_match_as_a_whole(erase: Erase) -> None:
    world = world_of()
    report = erase(world, columns=("user", "id"), keys=((SECRET, 7), (SECRET, 3)))
    assert report.counts.rows_deleted == 1
    assert stored_ids(world.table) == Counter(set(range(24)) - {7})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": ()}, "takes keys or a file of keys"),
        ({"keys": (("a",),), "keys_file": "k.csv"}, "takes keys or a file of keys"),
        ({"columns": (), "keys": (("a",),)}, "needs a key column"),
        ({"columns": ("nobody",), "keys": (("a",),)}, "has no column 'nobody'"),
        ({"columns": ("user", "USER"), "keys": (("a", "b"),)}, "column 'user' is named twice"),
        ({"keys": ((None,),)}, "key 1 of the list of keys is missing"),
        ({"columns": ("user", "id"), "keys": ("ab",)}, "has 1 value for 2 columns"),
        ({"keys": (("a", "b"),)}, "key 1 of the list of keys has 2 values for 1 column"),
        ({"columns": ("id",), "keys": (("x1",),)}, "nothing that column id (BIGINT) can hold"),
        ({"keys": (), "keys_file": "keys.txt"}, "neither .parquet nor .csv"),
        ({"keys": (), "keys_file": "nowhere.csv"}, "there is no file nowhere.csv"),
    ],
)
def test_keys_that_cannot_be_change_nothing(
    options: dict[str, Any], said: str, erase: Erase
) -> None:
    world = world_of()
    before = dict(world.store.objects)
    with pytest.raises(UsageError) as raised:
        erase(world, **options)
    assert said in raised.value.message
    assert world.store.objects == before


def test_a_certificate_that_is_not_there_is_named() -> None:
    world = world_of()
    with pytest.raises(UsageError, match="'x' is not the id of a certificate of t"):
        complete_certificate(world.table, "x", RUN)
    unknown = world.ids.uuid7(world.clock.now)
    with pytest.raises(UsageError, match=f"there is no certificate {unknown} of t"):
        complete_certificate(world.table, unknown, RUN)


def test_a_certificate_is_not_complete_while_what_was_written_as_it_slept_is_unknown(
    erase: Erase,
) -> None:
    """A merge that began before the erase dies after it has uploaded its output."""
    world = world_of()
    report = erase(world, SECRET)
    assert report.certificate is not None
    orphan = world.table.paths.data_part("day=1", world.ids.uuid7(world.clock.now))

    def sleeps() -> None:
        world.clock.advance(HOUR)
        world.store.objects[orphan] = (b"rows of a key", world.clock.now)
        settle_everything(world)

    store = Asleep(world.store, at="list t/_log/", meanwhile=sleeps)
    asleep = complete_certificate(replace(world.table, store=store), report.certificate, RUN)
    assert (store.slept, asleep.status) == (1, "waiting")
    found = complete(world, report)
    assert (found.status, left(found)["orphan"]) == ("waiting", 1)
