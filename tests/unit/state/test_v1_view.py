"""The v1 reading of a log, against an independent client of that format."""

from __future__ import annotations

from firnline.log import codec
from firnline.log.records import LogContent, LogTombstone, Marker, TxnMark
from firnline.state import v1_view
from tests.support.log_tables import do_merge, put_append, snapshot, v1_live
from tests.support.v1_client import V1Client
from tests.support.world import make_world

PART = "t/_data/d=1/a.parquet"
SCHEMA = {"id": "BIGINT"}


def content(t: int, tmb: int | None = None) -> LogContent:
    return LogContent(t=t, schema=SCHEMA, markers=[Marker(PART, 1, 5, tmb=tmb)])


def test_of_two_log_files_the_later_name_wins() -> None:
    dead, alive = content(1, tmb=1), content(2)
    assert v1_view.live_parts({"a": dead, "b": alive}) == {PART}
    assert v1_view.live_parts({"b": dead, "a": alive}) == set()


def test_of_two_lines_of_one_log_file_the_later_wins() -> None:
    both = LogContent(t=1, schema=SCHEMA, markers=[Marker(PART, 1, 5, 6), Marker(PART, 1, 5)])
    assert v1_view.live_parts({"a": both}) == {PART}


def test_it_reads_what_an_independent_client_reads() -> None:
    world = make_world()
    client = V1Client(world)
    for _ in range(3):
        put_append(world, "d=1", "d=2")
        client.append("d=1")
    client.merge("d=2")
    do_merge(world, [p for p in snapshot(world).live if "d=1" in p])
    assert v1_view.live_parts(snapshot(world).contents) == client.live() == v1_live(world)


def test_what_it_writes_has_nothing_of_ours_and_reads_back() -> None:
    world = make_world()
    whole = LogContent(
        t=9,
        schema=SCHEMA,
        markers=[Marker(PART, 1, 5, n=3, q=1, o=(1, 2)), Marker(PART + "x", 1, 5, 7)],
        tombstones=[LogTombstone("t/_log/1_a.jsonl", 8)],
        x=TxnMark(1, "id", "merge", 4),
    )
    data = v1_view.encode(whole)
    assert data.split(b"\n")[0] == b'{"v":1,"t":9,"sch":1,"f":3,"tmb":2}'
    found = codec.decode("t/_log/9_m_x.jsonl", data, world.table.paths)
    assert found.markers == [Marker(PART, 1, 5), Marker(PART + "x", 1, 5, 7)]
    assert (found.tombstones, found.x) == (whole.tombstones, None)
    assert v1_view.is_v1(found)
    assert not v1_view.is_v1(whole)


def test_without_tombstones_there_is_no_section_for_them() -> None:
    data = v1_view.encode(content(9))
    assert data.split(b"\n")[0] == b'{"v":1,"t":9,"sch":1,"f":2}'
