"""Mirrors of the fleet: when one is overdue, and how many requests that takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from firnline.commit.base import read_base
from firnline.errors import FirnlineError
from firnline.log import codec
from firnline.log.records import LogContent, LogTombstone, Marker
from firnline.log.txn_file import RunIdentity
from firnline.mirror.delta.publish import publish
from firnline.mirror.hold import parts_with_deletes
from firnline.operations.fleet.mirrors import NotPublished, ends_wait, publish_mirrors
from firnline.operations.fleet.run import Member
from firnline.operations.merge.run import preview
from firnline.operations.operation import Work
from firnline.operations.options import MergeOptions, VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.table import Table
from tests.support.fleet import need_of
from tests.support.histories import delete_lazily, filled
from tests.support.log_tables import SCHEMA, do_merge, put_append
from tests.support.mirrors import mirrored_world
from tests.support.world import World, make_world

EVERY = 600_000
_KINDS = ("get", "put", "list", "head", "delete")
RUN = RunIdentity(run_id="r")


def mirrored(every: str | None = "10m", **more: Any) -> World:
    return mirrored_world(**{"mirror": [{"delta": {"every": every}}], **more})


def requests(world: World, table: Table, *, merges: bool) -> tuple[bool, Counter[str]]:
    """The decision on a table, and its requests."""
    before = world.store.counters.as_dict()
    need = need_of(table, budgeted=False, starts={"merge"} if merges else ())
    after = world.store.counters.as_dict()
    return need.mirror, Counter({k: after[k] - before[k] for k in after if k in _KINDS})


def overdue(world: World) -> tuple[bool, Counter[str]]:
    """The decision, and its requests besides those that read the log."""
    plain = replace(world.table, settings=world.settings.model_copy(update={"mirror": ()}))
    found, cost = requests(world, world.table, merges=True)
    assert (found, cost) == requests(world, world.table, merges=False)
    return found, cost - requests(world, plain, merges=True)[1]


def test_a_table_without_a_version_is_published_once_its_log_is_old_enough() -> None:
    world = mirrored()
    put_append(world)
    assert overdue(world) == (False, Counter())
    world.clock.advance(EVERY)
    assert overdue(world) == (True, Counter(list=1))


def test_an_append_counts_from_when_it_landed_and_one_that_is_shown_does_not() -> None:
    world = mirrored()
    put_append(world)
    publish(world.table)
    world.clock.advance(EVERY)
    assert overdue(world) == (False, Counter(get=1, list=1))
    put_append(world)
    assert not overdue(world)[0]
    world.clock.advance(EVERY - 10)
    # A newer one does not put it off.
    put_append(world)
    assert not overdue(world)[0]
    world.clock.advance(20)
    assert overdue(world) == (True, Counter(get=1, list=1))
    publish(world.table)
    assert not overdue(world)[0]


def test_a_merge_counts_from_its_commit() -> None:
    world = mirrored()
    first = put_append(world)
    publish(world.table)
    do_merge(world, first)
    world.clock.advance(EVERY - 10)
    assert not overdue(world)[0]
    world.clock.advance(20)
    assert overdue(world)[0]


def test_an_append_counts_though_a_client_of_version_1_has_folded_it() -> None:
    world = mirrored()
    put_append(world)
    publish(world.table)
    (key,) = put_append(world)
    log = max(k for k in world.store.objects if k.startswith(world.table.paths.log_dir))
    world.clock.advance(10)
    t = world.clock.now
    content = LogContent(
        t=t,
        schema=SCHEMA,
        markers=[Marker(p=key, b=100, t=t - 10)],
        tombstones=[LogTombstone(log, t)],
    )
    name = f"{world.table.paths.log_dir}{t:013d}_m_host-{world.ids.uuid7(t)}.jsonl"
    world.store.put_new(name, codec.encode(content))
    assert not overdue(world)[0]
    world.clock.advance(EVERY)
    assert overdue(world)[0]
    world.clock.advance(1)
    assert publish(world.table).written
    assert not overdue(world)[0]


def test_of_a_quiet_table_the_newest_version_is_not_read() -> None:
    world = mirrored()
    put_append(world)
    world.clock.advance(world.settings.cleanup.grace)
    publish(world.table)
    world.clock.advance(EVERY)
    assert overdue(world) == (False, Counter(list=1))


def test_the_planner_leaves_a_mirror_alone_that_has_no_age() -> None:
    world = mirrored(None)
    put_append(world)
    world.clock.advance(86_400_000)
    assert overdue(world) == (False, Counter())


def test_a_table_without_properties_is_left_to_its_first_commit_and_verify_says_so() -> None:
    world = make_world(mirror=[{"delta": {"every": "10m"}}])
    keys = put_append(world)
    world.clock.advance(EVERY)
    assert overdue(world) == (False, Counter()), "a publication would be refused each time"
    assert "mirror-unstated" in findings(world)
    do_merge(world, keys)  # records the properties of the settings
    world.clock.advance(EVERY)
    assert overdue(world)[0]
    assert "mirror-unstated" not in findings(world)
    (done,) = publish_mirrors([Member("t", lambda: world.table)], RUN, 1)
    assert not isinstance(done, NotPublished)


def test_a_merge_that_ends_the_wait_of_a_mirror_is_known_without_a_request() -> None:
    for formats in (["delta"], [{"iceberg": {"catalog": "lake", "name": "ns.t"}}], []):
        world = filled(2, mirror=formats)
        assert not need_of(world.table, budgeted=False).ends_wait
        delete_lazily(world, below=3)
        found = need_of(world.table, budgeted=False)
        assert found.parts_in
        assert found.ends_wait == bool(formats)
        plain = replace(world.table, settings=world.settings.model_copy(update={"mirror": ()}))
        assert requests(world, plain, merges=True) == requests(world, plain, merges=False)


def test_a_merge_of_other_parts_than_those_that_a_mirror_waits_for_does_not_go_first() -> None:
    world = filled(2, mirror=["delta"])
    delete_lazily(world, below=1)
    base, plan = read_base(world.table), preview(world.table, MergeOptions())
    assert ends_wait(base, plan)
    held = {each.marker.p for each in parts_with_deletes(base.snapshot)}
    others = [replace(g, parts=tuple(m for m in g.parts if m.p not in held)) for g in plan.groups]
    assert not ends_wait(base, replace(plan, groups=tuple(others), hidden=()))


def findings(world: World) -> dict[str, int]:
    return run_verify(Work(world.table), VerifyOptions()).kinds


@pytest.mark.long
def test_one_that_fails_holds_up_no_other() -> None:
    world, bare = mirrored(), make_world(mirror=["delta"])
    put_append(world)

    def broken() -> Any:
        raise FirnlineError("no access", next_step="get it")

    def defect() -> Any:
        raise ZeroDivisionError("by nothing")

    members = [
        Member("bug", defect),
        Member("x", broken),
        Member("empty", lambda: bare.table),
        Member("t", lambda: world.table),
    ]
    bug, first, second, third = publish_mirrors(members, RUN, 2)
    assert bug == NotPublished("bug", "ZeroDivisionError: by nothing")
    assert first == NotPublished("x", "no access; get it")
    assert isinstance(second, NotPublished)
    assert not isinstance(third, NotPublished)
    assert third.delta is not None
    assert third.delta.written
