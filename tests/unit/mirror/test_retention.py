"""Clean-up leaves the parts that readers of the mirror may still use."""

from __future__ import annotations

from firnline.mirror.delta.publish import publish
from firnline.mirror.delta.retention import readers_of
from firnline.mirror.retention import LONGEST_WAIT_MS, Readers, lacks_since
from tests.support.cleanups import GRACE, clean_up, keys_under
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.mirrors import mirrored_world, states
from tests.support.world import World


def settled(world: World) -> None:
    """Readers of the table itself are done with everything that is dead."""
    world.clock.advance(GRACE + 1_000)


def parts(world: World) -> set[str]:
    return keys_under(world, "_data")


def test_a_part_goes_when_a_version_without_it_is_as_old_as_the_grace() -> None:
    world = mirrored_world()
    old = put_append(world)
    publish(world.table)
    do_merge(world, old)
    settled(world)
    report = clean_up(world)
    assert (report.parts, old[0] in parts(world)) == (0, True)
    assert any("the Delta mirror shows them" in each.reason for each in report.waiting)
    publish(world.table)
    assert states(world)[-1] == set(snapshot(world).live)
    world.clock.advance(GRACE - 1_000)
    assert clean_up(world).parts == 0, "a reader may have begun right before that version"
    world.clock.advance(1_000)
    assert clean_up(world).parts == 1
    assert parts(world) == set(snapshot(world).live)


def test_what_died_before_the_mirror_began_does_not_wait_for_it() -> None:
    world = mirrored_world()
    do_merge(world, put_append(world))
    settled(world)
    publish(world.table)
    assert clean_up(world).parts == 1


def test_what_no_version_has_shown_waits_until_one_is_newer() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    world.clock.advance(10)
    passing = put_append(world)
    do_merge(world, passing)
    publish(world.table)
    settled(world)
    assert clean_up(world).parts == 1


def test_a_table_without_a_version_yet_is_cleaned_up_as_before() -> None:
    world = mirrored_world()
    do_merge(world, put_append(world))
    settled(world)
    assert clean_up(world).parts == 1


def test_versions_that_expired_are_not_taken_for_the_first() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    del world.store.objects[world.table.paths.delta_version(0)]
    world.clock.advance(10)
    found = readers_of(world.store, world.table.paths, GRACE, world.clock.now)
    assert found is not None
    assert found.until == -1


def test_nothing_waits_for_ever_for_a_mirror_that_nobody_publishes() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    settled(world)
    report = clean_up(world)
    assert report.parts == 0
    assert "the Delta mirror shows transaction 1" in report.warnings[0]
    assert "run `firnline mirror`" in report.warnings[0]
    world.clock.advance(LONGEST_WAIT_MS)
    report = clean_up(world)
    assert report.parts == 1
    assert "1 part that it shows goes all the same" in report.warnings[0]


def test_an_old_transaction_stays_as_long_as_a_part_that_it_replaced() -> None:
    readers = Readers(until=5, seq=1, at=0)
    assert not readers.uses(5, due_ms=0, now_ms=10)
    assert readers.uses(6, due_ms=0, now_ms=10)
    assert not readers.uses(6, due_ms=0, now_ms=LONGEST_WAIT_MS)


def test_only_a_mirror_that_lags_for_longer_than_the_grace_is_told() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    world.clock.advance(100 * GRACE)  # nothing happens, so nothing is missing in the mirror
    do_merge(world, keys)
    world.clock.advance(GRACE - 1_000)
    assert clean_up(world).warnings == ()
    world.clock.advance(2_000)
    (told,) = clean_up(world).warnings
    assert "the Delta mirror shows transaction" in told
    assert "parts wait for it" in told
    publish(world.table)
    assert clean_up(world).warnings == ()


def test_where_the_log_has_forgotten_what_a_mirror_lacks_its_own_date_counts() -> None:
    world = mirrored_world()
    do_merge(world, put_append(world))
    state = snapshot(world)
    dates = {seq: t for t, seq in state.times}
    assert lacks_since(state, state.seq, at=5) is None
    assert lacks_since(state, state.seq - 1, at=5) == state.effective(dates[state.seq])
    assert lacks_since(state, state.seq - 1 - len(dates), at=5) == 5
