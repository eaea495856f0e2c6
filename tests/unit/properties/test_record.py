"""The record of a table's properties: one of each, and the times that make others wait longest."""

from __future__ import annotations

import msgspec
import pytest

from firnline.properties.record import (
    Cluster,
    Properties,
    PropertiesRecord,
    parse_line,
    record_line,
    union,
)

VALUES = Properties(
    append_ttl=1, commit_ttl=2, grace=3, orphan_grace=4, cluster_by=Cluster(("a", "b"), "zorder")
)


def test_a_line_is_read_as_it_was_written() -> None:
    for record in (PropertiesRecord(0, 5, VALUES), PropertiesRecord(7, 5, VALUES, seen=9)):
        assert parse_line(record_line(record)) == record


def test_a_property_of_a_later_version_is_an_error() -> None:
    line = record_line(PropertiesRecord(0, 5, VALUES))
    assert b'"values":{' in line
    with pytest.raises(msgspec.MsgspecError, match="later"):
        parse_line(line.replace(b'"values":{', b'"values":{"later":1,'))


@pytest.mark.parametrize(
    ("seen", "kept"), [((None, 8), 8), ((8, None), 8), ((8, 9), 9), ((9, 8), 9)]
)
def test_of_two_copies_the_one_counts_that_makes_others_wait_longer(
    seen: tuple[int | None, int | None], kept: int
) -> None:
    for t in ((5, 6), (6, 5)):
        copies = [
            PropertiesRecord(1, at, VALUES, seen=when) for at, when in zip(t, seen, strict=True)
        ]
        assert union(copies) == (PropertiesRecord(1, 5, VALUES, seen=kept),)


def test_a_copy_that_nobody_has_seen_stays_so() -> None:
    record = PropertiesRecord(1, 5, VALUES)
    assert union([record, record]) == (record,)


def test_appends_that_began_a_table_at_once_say_what_each_of_them_says() -> None:
    other = msgspec.structs.replace(VALUES, grace=30)
    first, second = PropertiesRecord(0, 5, VALUES), PropertiesRecord(0, 6, other)
    later = PropertiesRecord(2, 9, VALUES)
    found = union([later, second, first])
    assert set(found[:2]) == {first, second}
    assert found[2:] == (later,), "oldest first"


def test_only_a_table_with_a_mirror_says_so_and_earlier_versions_refuse_only_that() -> None:
    plain = record_line(PropertiesRecord(0, 5, VALUES))
    assert b"mirror" not in plain
    assert record_line(PropertiesRecord(0, 5, msgspec.structs.replace(VALUES, mirror=()))) == plain
    mirrored = msgspec.structs.replace(VALUES, mirror=("delta",))
    line = record_line(PropertiesRecord(0, 5, mirrored))
    assert b'"mirror":["delta"]' in line
    assert parse_line(line).values.mirrors == ("delta",)
    assert parse_line(plain).values.mirrors == ()
    assert (VALUES.plain()["mirror"], mirrored.plain()["mirror"]) == ([], ["delta"])
