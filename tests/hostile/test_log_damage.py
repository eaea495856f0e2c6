"""Every byte of small log files and transactions changed, lost or doubled, one at a time.

What is ours carries a checksum: whatever happens to it, the reading is exactly the right one or an
error that names the object. Files of version 1 carry none. What can be promised of them is said in
``test_a_v1_file_...``: no exception of a library, and nothing but well-formed records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from firnline.commit.base import take_base
from firnline.commit.transaction import Change, commit
from firnline.log import codec, txn_file
from firnline.log.heads import read_schemas
from firnline.log.records import Delete, LogContent, Marker, stats_json
from firnline.log.txn_file import Counts, RunIdentity
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.state.survey import survey_transactions
from tests.support.hostile import damaged, reading, refusal, replaced, shifted
from tests.support.log_tables import do_merge, put_append, snapshot
from tests.support.v1_client import V1Client
from tests.support.world import World, make_world

PATHS = TablePaths("t")
WHERE = msgspec.Raw(b'{"op":"<","column":"v","value":3}')
KINDS = ("append", "merge", "delete", "folded", "imported")


def delete(world: World) -> None:
    record = Delete(id=world.ids.uuid7(world.clock.now), seq=0, t=0, where=WHERE)
    change = Change("delete", (), (), Counts(), deletes=(record,))
    commit(world.table, take_base(world.table), change, RunIdentity(run_id="r"))


@cache
def files() -> dict[str, tuple[str, bytes]]:
    """One log file of every kind, with its key; all of them from a real table."""
    world = make_world()
    put_append(world, "d=1")
    found = {"append": _newest(world)}
    do_merge(world, put_append(world, "d=2") + put_append(world, "d=2"))
    found["merge"] = _newest(world)
    put_append(world, "d=1")
    delete(world)
    found["delete"] = _newest(world)
    do_merge(world, [snapshot(world).partitions["d=1"][i].p for i in (0, 1)])
    found["folded"] = _newest(world)
    stats = stats_json({"v": (-1, 9, 2), "ts": (None, None, 4)})
    content = LogContent(
        t=9,
        schema={"v": "INTEGER"},
        markers=[Marker("t/_data/d=é/1.parquet", 7, 9, n=4, q=0, o=(1, 9), s=stats)],
        other=[b'{"imported":{"id":"x","source":"old/","t":9,"files":1}}'],
    )
    found["imported"] = ("t/_log/0000000000009_w.jsonl", codec.encode(content))
    return found


def _newest(world: World) -> tuple[str, bytes]:
    keys = [key for key in world.store.objects if key.startswith("t/_log/")]
    key = max(keys)
    return key, world.store.objects[key][0]


def told(content: LogContent) -> bytes:
    """A reading as text: equal where it is equal."""
    return codec.encode(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_file_reads_right_or_is_refused_by_name_whatever_byte_is_hit(kind: str) -> None:
    key, whole = files()[kind]
    right = codec.decode(key, whole, PATHS)
    assert {
        "append": len(right.markers) == 1 and not right.tombstones,
        "merge": len(right.tombstones) == 3 and right.x is not None,
        "delete": len(right.deletes) == 1,
        "folded": len(right.tombstones) >= 3 and len(right.deletes) == 1,
        "imported": len(right.other) == 1,
    }[kind]
    survived = 0
    for data in damaged(whole):
        content = reading(key, codec.decode, key, data, PATHS)
        if content is not None:
            survived += 1
            assert told(content) == told(right)
    # What does not count: blanks in the line of the checksum, the one that it cannot cover.
    assert survived < 25


def table() -> World:
    """Log files that a reader fetches, one that it does not, and a committed transaction."""
    world = make_world()
    do_merge(world, put_append(world) + put_append(world))
    put_append(world, "d=2")
    delete(world)
    put_append(world, "d=3")
    return world


def state(found: Snapshot) -> object:
    return (
        dict(found.live),
        dict(found.log_tombstones),
        dict(found.deletes),
        dict(found.schema),
        found.seq,
        found.purged,
    )


def a_few(data: bytes) -> Iterator[bytes]:
    """Of all damage at every position, two kinds."""
    for at in range(len(data)):
        yield next(replaced(data, at))
        yield data[:at]


def test_a_table_with_one_damaged_log_file_reads_right_or_is_refused_by_its_name() -> None:
    world = table()
    right = state(snapshot(world))
    logs = [key for key in world.store.objects if key.startswith("t/_log/")]
    assert len(logs) == 6
    skipped = read_snapshot(world.store, PATHS).skipped
    assert skipped
    for key in logs:
        whole = world.store.objects[key]
        for data in a_few(whole[0]):
            world.store.objects[key] = (data, whole[1])
            for everything in (False, True):
                found = reading(key, read_snapshot, world.store, PATHS, everything=everything)
                if found is None:
                    assert everything or key not in skipped
                else:
                    assert state(found) == right
        world.store.objects[key] = whole


def test_no_writer_gets_more_than_one_error_from_a_damaged_head() -> None:
    """Writers read the first bytes alone, without the checksum behind them."""
    world = table()
    for key in [key for key in world.store.objects if key.startswith("t/_log/")]:
        whole = world.store.objects[key]
        for data in a_few(whole[0]):
            world.store.objects[key] = (data, whole[1])
            reading("t/_log/", read_schemas, world.store, PATHS)
        world.store.objects[key] = whole


def unpublished() -> tuple[World, str]:
    """A table whose newest transaction is committed and not published, and that one's key."""
    world = table()
    delete(world)
    del world.store.objects[_newest(world)[0]]
    return world, max(key for key in world.store.objects if key.startswith("t/_txn/"))


def test_a_transaction_reads_right_or_is_refused_by_name_whatever_byte_is_hit() -> None:
    world, key = unpublished()
    whole = world.store.objects[key][0]
    right = txn_file.decode(key, whole, PATHS)
    for data in damaged(whole):
        assert reading(key, txn_file.decode, key, data, PATHS) in (None, right)


def test_a_damaged_transaction_is_never_published() -> None:
    world, key = unpublished()
    whole = world.store.objects[key]
    before = set(world.store.objects)
    for data in a_few(whole[0]):
        world.store.objects[key] = (data, whole[1])
        refusal(key, take_base, world.table)
        assert set(world.store.objects) == before
        found = survey_transactions(world.store, PATHS)
        assert list(found.broken) == [key]
    world.store.objects[key] = whole
    assert take_base(world.table).seq == 3


# --- version 1 ------------------------------------------------------------------------------------


@cache
def foreign() -> tuple[str, bytes]:
    """A merged log file of a client of version 1."""
    world = make_world()
    client = V1Client(world)
    client.append("d=1")
    client.append("d=1")
    client.merge("d=1")
    key = client.log_files()[-1]
    return key, world.store.objects[key][0]


def records(content: LogContent) -> list[object]:
    """Everything a reading says, one item per line of the file."""
    return [content.schema, *content.tombstones, *content.markers]


def well_formed(content: LogContent) -> bool:
    numbers = [n for m in content.markers for n in (m.b, m.t, m.tmb or 0, m.n or 0, *m.order())]
    numbers += [tombstone.t for tombstone in content.tombstones]
    return (
        all(0 <= n < 2**63 for n in numbers)
        and all(m.p.startswith("t/_data/") and ".." not in m.p.split("/") for m in content.markers)
        and all(tombstone.p.startswith("t/_log/") for tombstone in content.tombstones)
    )


def test_a_v1_file_with_a_changed_byte_is_refused_by_name_or_differs_in_one_record() -> None:
    """Without a checksum a digit of a size, or a letter of a name, may be another one."""
    key, whole = foreign()
    right = records(codec.decode(key, whole, PATHS))
    other = 0
    for at in range(len(whole)):
        for data in replaced(whole, at):
            content = reading(key, codec.decode, key, data, PATHS)
            if content is None:
                continue
            found = records(content)
            assert well_formed(content)
            assert len(found) == len(right)
            assert sum(a != b for a, b in zip(found, right, strict=True)) <= 1
            other += found != right
    assert other, "without a checksum there are such: else this test looks at the wrong file"


def test_a_v1_file_that_is_cut_is_refused_or_ends_with_a_whole_line() -> None:
    """As for every client of version 1: a cut at the end of a line shows in nothing."""
    key, whole = foreign()
    right = codec.decode(key, whole, PATHS)
    lines = whole.split(b"\n")
    ends = {len(b"\n".join(lines[:n])) + (n < len(lines)) * k for n in range(1, 9) for k in (0, 1)}
    for length in range(len(whole)):
        content = reading(key, codec.decode, key, whole[:length], PATHS)
        if content is not None:
            assert length in ends
            assert (content.schema, content.tombstones) == (right.schema, right.tombstones)
            assert content.markers == right.markers[: len(content.markers)]


def test_a_v1_file_with_bytes_more_or_less_is_refused_by_name_or_well_formed() -> None:
    key, whole = foreign()
    for at in range(len(whole)):
        for data in shifted(whole, at):
            content = reading(key, codec.decode, key, data, PATHS)
            assert content is None or well_formed(content)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("b", -1),
        ("b", 2**63),
        ("t", -1),
        ("t", 10**30),
        ("tmb", -5),
        ("tmb", 2**63),
        ("n", -1),
        ("q", 2**64),
        ("o", [-1, 5]),
        ("o", [1, 2**63]),
    ],
)
def test_a_size_or_time_that_cannot_be_is_refused_with_its_line(field: str, value: object) -> None:
    key, whole = foreign()
    *before, last = whole.split(b"\n")
    line = json.dumps(json.loads(last) | {field: value}).encode()
    said = f"{key} line {len(before) + 1} cannot be read"
    data = b"\n".join([*before, line])
    refusal(said, codec.decode, key, data, PATHS)


DEEP = b"[" * 50_000 + b"]" * 50_000


@pytest.mark.parametrize(
    "place",
    [
        b'{"v":1,"t":1,"sch":1,"f":2,"z":@}\n{"a":"DATE"}\n{"p":"t/_data/x","b":1,"t":1}',
        b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":@}\n{"p":"t/_data/x","b":1,"t":1}',
        b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":"DATE"}\n{"p":"t/_data/x","b":1,"t":1,"z":@}',
        b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":"DATE"}\n{"p":"t/_data/x","b":1,"t":1,"s":@}',
        b'{"v":1,"t":1,"sch":1,"tmb":2,"f":3}\n{"a":"DATE"}\n{"p":"t/_log/1_x.jsonl","t":1,"z":@}',
    ],
)
def test_deep_nesting_is_refused_by_name(place: bytes) -> None:
    key = "t/_log/1_w.jsonl"
    said = f"{key} line"
    refusal(said, codec.decode, key, place.replace(b"@", DEEP), PATHS)


@pytest.mark.parametrize("record", [b'{"later":@}', b'{"del":{"id":"x","seq":1,"t":1,"where":@}}'])
def test_deep_nesting_behind_a_checksum_is_refused_by_name(record: bytes) -> None:
    head = b'{"v":1,"t":1,"sch":1,"ext":2,"f":4}\n{"a":"DATE"}'
    data = codec.seal(head, record.replace(b"@", DEEP))
    said = "t/_log/1_w.jsonl line"
    refusal(said, codec.decode, "t/_log/1_w.jsonl", data, PATHS)


@pytest.mark.parametrize("stats", [b"5", b'{"a":[1,2]}', b'{"a":[[],[],0]}', b'{"a":[1,2,"x"]}'])
def test_statistics_that_do_not_read_count_as_missing(stats: bytes) -> None:
    """They are an aid; what they would have excluded is read."""
    line = b'{"p":"t/_data/x","b":1,"t":1,"s":@}'.replace(b"@", stats)
    data = b'{"v":1,"t":1,"sch":1,"f":2}\n{"a":"DATE"}\n' + line
    (marker,) = codec.decode("t/_log/1_w.jsonl", data, PATHS).markers
    assert marker.stats() == {}
