"""Verify compares the mirror with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from firnline.mirror.delta.publish import publish
from firnline.operations.operation import Work
from firnline.operations.options import VerifyOptions
from firnline.operations.verify.run import run_verify
from firnline.store.base import ObjectMeta
from tests.support.cleanups import GRACE
from tests.support.log_tables import do_merge, put_append
from tests.support.mirrors import mirrored_world
from tests.support.world import FaultyStore, World


def found(world: World) -> set[str]:
    report = run_verify(Work(world.table), VerifyOptions())
    return {finding.kind for finding in report.findings if finding.kind.startswith("mirror")}


def first_version(world: World) -> str:
    return world.table.paths.delta_version(0)


def edit(world: World, change: Callable[[bytes], bytes]) -> None:
    data, at = world.store.objects[first_version(world)]
    world.store.objects[first_version(world)] = (change(data), at)


def test_a_mirror_that_shows_what_it_says_is_no_finding() -> None:
    world = mirrored_world()
    keys = put_append(world)
    assert found(world) == {"mirror-missing"}
    publish(world.table)
    assert found(world) == set()
    do_merge(world, keys)
    assert found(world) == set(), "it lags"
    publish(world.table)
    assert found(world) == set()


def test_a_mirror_that_lags_for_longer_than_the_grace_is_a_finding() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    world.clock.advance(GRACE + 1)
    assert found(world) == {"mirror-behind"}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda data: data.replace(b"/018", b"/019"), "mirror-unknown-part"),
        (lambda data: b"\n".join(data.split(b"\n")[:-2]) + b"\n", "mirror-missing-part"),
        (lambda data: b"nonsense\n" + data, "mirror-damaged"),
    ],
)
def test_a_mirror_that_somebody_edited_is_a_finding(
    change: Callable[[bytes], bytes], kind: str
) -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    edit(world, change)
    assert kind in found(world)


@pytest.mark.parametrize("lags", [False, True])
@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (b'"protocol"', "has no protocol, without which no engine reads it"),
        (b'"metaData"', "has no columns, without which no engine reads it"),
        (b'"add"', "shows 1 file, and states 2"),
    ],
)
def test_a_mirror_whose_version_lost_a_line_is_a_finding_also_while_it_lags(
    gone: bytes, said: str, lags: bool
) -> None:
    world = mirrored_world()
    put_append(world, "d=1", "d=2")
    publish(world.table)
    if lags:
        put_append(world)

    def without(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        del lines[next(number for number, line in enumerate(lines) if gone in line)]
        return b"".join(lines)

    edit(world, without)
    report = run_verify(Work(world.table), VerifyOptions())
    ours = [each for each in report.findings if each.kind.startswith("mirror")]
    if gone == b'"add"' and not lags:
        assert [each.kind for each in ours] == ["mirror-missing-part"]
    else:
        assert [(each.kind, each.sentence) for each in ours] == [("mirror-damaged", said)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"appendOnly","firnline"', b'"appendOnly"', "does not ask for the feature firnline"),
        (b'"readerFeatures":["t', b'"readerFeatures":["o', "the features timestampNtz, which"),
        (b'\\"nullable\\":true', b'\\"nullable\\":false', "has other columns than it states"),
    ],
)
def test_a_mirror_with_an_edited_protocol_or_other_columns_is_a_finding(
    old: bytes, new: bytes, said: str
) -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)
    edit(world, lambda data: data.replace(old, new, 1))
    report = run_verify(Work(world.table), VerifyOptions())
    (finding,) = [each for each in report.findings if each.kind == "mirror-damaged"]
    assert said in finding.sentence


def test_a_mirror_whose_first_version_was_emptied_is_a_finding_whatever_happened_since() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    put_append(world)
    edit(world, lambda _: b"{}\n")
    assert found(world) == {"mirror-damaged"}


def test_a_part_that_was_dead_in_the_state_that_is_stated_is_a_finding() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    do_merge(world, keys)
    publish(world.table)
    data, at = world.store.objects[world.table.paths.delta_version(1)]
    lines = [line for line in data.split(b"\n") if b'"remove"' not in line]
    world.store.objects[world.table.paths.delta_version(1)] = (b"\n".join(lines), at)
    assert found(world) == {"mirror-dead-part"}


def test_a_quiet_table_whose_newest_transaction_is_young_has_no_mirror_behind() -> None:
    world = mirrored_world()
    keys = put_append(world)
    publish(world.table)
    world.clock.advance(3 * GRACE)
    do_merge(world, keys)
    assert found(world) == set()
    world.clock.advance(GRACE + 1)
    assert found(world) == {"mirror-behind"}


def test_what_was_appended_and_published_while_the_table_was_verified_is_no_finding() -> None:
    world = mirrored_world()
    put_append(world)
    publish(world.table)

    class Beside(FaultyStore):
        def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
            if prefix == world.table.paths.delta_dir and "met" not in self.calls:
                self.calls.append("met")
                put_append(world)
                publish(world.table)
            return super().list(prefix, start_after)

    store = Beside(world.store)
    report = run_verify(Work(replace(world.table, store=store)), VerifyOptions())
    assert "met" in store.calls
    assert not [each for each in report.findings if each.kind.startswith("mirror")]


def test_a_lost_log_is_a_finding_where_the_mirror_shows_parts_that_it_named() -> None:
    world = mirrored_world()
    keys = put_append(world)
    do_merge(world, keys)
    world.clock.advance(GRACE)  # so long that it must have been published
    publish(world.table)
    for key in [key for key in world.store.objects if "/_log/" in key and "_m_" in key]:
        del world.store.objects[key]
    report = run_verify(Work(world.table), VerifyOptions())
    assert {"log-lost", "mirror-unknown-part"} <= {finding.kind for finding in report.findings}
