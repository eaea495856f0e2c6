"""Log files: what was written is what is read, and damage is noticed."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import FirnlineError, ForeignPathError, LogCorruptError
from firnline.log import codec
from firnline.log.codec import decode, encode
from firnline.log.heads import decode_head
from firnline.log.records import (
    NO_STATS,
    Delete,
    LogContent,
    LogTombstone,
    Marker,
    TxnMark,
    stats_json,
    with_unknown,
)
from firnline.paths import TablePaths
from tests.support.effort import examples

PATHS = TablePaths("t")
KEY = "t/_log/1700000000000_w.jsonl"
IDS = st.integers(0, 2**62)
NAMES = st.text(st.characters(codec="utf-8"), max_size=12)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


@st.composite
def markers(draw: st.DrawFn) -> Marker:
    marker = Marker(
        p=f"t/_data/{draw(st.sampled_from(['', 'a=1/', 'é/']))}{draw(IDS)}.parquet",
        b=draw(IDS),
        t=draw(IDS),
        tmb=draw(st.none() | IDS),
        n=draw(st.none() | IDS),
        q=draw(st.none() | IDS),
        d=draw(st.none() | st.tuples(NAMES)),
        o=draw(st.none() | IDS | st.tuples(IDS, IDS)),
        s=draw(st.just(NO_STATS) | st.builds(lambda a: stats_json({"c": (a, a, 0)}), NAMES)),
    )
    extra = draw(st.dictionaries(st.sampled_from(["zz", "Y"]), NAMES, max_size=2))
    return with_unknown(marker, {k: raw(v) for k, v in extra.items()}) if extra else marker


CONTENTS = st.builds(
    LogContent,
    t=IDS,
    schema=st.dictionaries(NAMES, st.sampled_from(["INTEGER", "STRUCT(a INTEGER)"])),
    markers=st.lists(markers(), max_size=5),
    tombstones=st.lists(st.builds(lambda n: LogTombstone(f"t/_log/{n}_w.jsonl", n), IDS)),
    deletes=st.lists(
        st.builds(lambda i, s: Delete(i, s, s, raw({"is_null": "a"})), NAMES, IDS), max_size=2
    ),
    other=st.lists(st.builds(lambda n: msgspec.json.encode({"later": n}), NAMES), max_size=2),
    x=st.none() | st.builds(lambda n: TxnMark(n, "id", "merge", n), IDS),
)


def plain(content: LogContent) -> object:
    return (
        json.loads(
            msgspec.json.encode(
                [content.t, content.schema, content.tombstones, content.deletes, content.x]
            )
        ),
        [(m.p, m.b, m.t, m.tmb, m.n, m.q, m.d, m.o, bytes(m.s)) for m in content.markers],
        [{k: bytes(v) for k, v in m.unknown().items()} for m in content.markers],
        content.other,
    )


@pytest.mark.long
@given(CONTENTS)
@examples(25, 1_000)
def test_what_is_written_is_read(content: LogContent) -> None:
    assert plain(decode(KEY, encode(content), PATHS)) == plain(content)


def small() -> bytes:
    return encode(
        LogContent(
            t=5,
            schema={"a": "INTEGER"},
            markers=[
                Marker("t/_data/1.parquet", 10, 5, n=3, q=0, o=(5, 5)),
                Marker("t/_data/2.parquet", 10, 5, tmb=6, s=stats_json({"a": (1, 2, 0)})),
            ],
            tombstones=[LogTombstone("t/_log/3_w.jsonl", 4)],
            deletes=[Delete("d", 1, 5, raw({"is_null": "a"}))],
            other=[b'{"later":1}'],
            x=TxnMark(2, "id", "merge", 0),
        )
    )


def test_a_file_of_ours_that_was_cut_anywhere_is_an_error() -> None:
    whole = small()
    for length in range(len(whole)):
        with pytest.raises(FirnlineError):
            decode(KEY, whole[:length], PATHS)


@pytest.mark.parametrize("mask", [1, 2, 32, 128])
def test_a_file_of_ours_with_any_byte_changed_is_an_error(mask: int) -> None:
    whole = small()
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
        with pytest.raises(FirnlineError):
            decode(KEY, changed, PATHS)


def test_the_layout_is_the_one_that_v1_clients_read() -> None:
    lines = small().split(b"\n")
    header = json.loads(lines[0])
    assert header["v"] == 1
    assert json.loads(lines[header["sch"]]) == {"a": "INTEGER"}
    assert [json.loads(x)["p"] for x in lines[header["tmb"] : header["f"]]] == ["t/_log/3_w.jsonl"]
    parts = [json.loads(x) for x in lines[header["f"] :]]
    assert [p["p"] for p in parts] == ["t/_data/1.parquet", "t/_data/2.parquet"]
    assert all(isinstance(p[k], int) for p in parts for k in ("b", "t"))
    assert not small().endswith(b"\n")


def test_no_key_of_ours_is_a_v1_key_in_another_case() -> None:
    v1 = {"p", "b", "t", "tmb", "v", "sch", "f"}
    lines = small().split(b"\n")
    for line in [lines[0], *lines[-2:]]:
        for key in json.loads(line):
            assert key in v1 or key.lower() not in v1


FOREIGN = b"\n".join(
    [
        b'{"v":"1","t":1700000000000,"sch":1,"tmb":2,"f":3}',
        b'{"a":"INTEGER"}',
        b'{"p":"t/_log/1_host.jsonl","t":3}',
        b'{"p":"t/_data/x/y.parquet","b":3,"t":4,"zzz":{"k":[1]}}',
    ]
)


def test_a_v1_clients_file_is_read_as_it_is() -> None:
    content = decode(KEY, FOREIGN, PATHS)
    assert content.schema == {"a": "INTEGER"}
    assert content.tombstones == [LogTombstone("t/_log/1_host.jsonl", 3)]
    (marker,) = content.markers
    assert (marker.p, marker.n, marker.q, marker.stats()) == ("t/_data/x/y.parquet", None, None, {})


def test_unknown_keys_of_a_marker_go_on_into_the_next_log_file() -> None:
    content = decode(KEY, FOREIGN, PATHS)
    assert b'"zzz":{"k":[1]}' in encode(content)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"b":3', b'"b":x', "line 4"),
        (b'"b":3', b'"b":"3"', "line 4"),
        (b'{"p":"t/_log', b'{"q":"t/_log', "line 3"),
        (b'"INTEGER"', b"4", "line 2"),
        (b'"f":3', b'"f":9', "line 1"),
        (b'"f":3', b'"f":1', "line 1"),
        (b'"v":"1"', b'"v":2', "upgrade firnline"),
    ],
)
def test_a_line_that_does_not_read_is_named(old: bytes, new: bytes, says: str) -> None:
    assert old in FOREIGN
    with pytest.raises(LogCorruptError, match=says) as caught:
        decode(KEY, FOREIGN.replace(old, new), PATHS)
    assert KEY in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"t/_data/x/y", b"other/_data/x/y"),
        (b"t/_data/x/y", b"t/_data/../y"),
        (b"t/_log/1_host", b"other/_log/1_host"),
    ],
)
def test_a_path_outside_the_table_is_refused(old: bytes, new: bytes) -> None:
    with pytest.raises(ForeignPathError):
        decode(KEY, FOREIGN.replace(old, new), PATHS)


def test_an_empty_file_is_an_error() -> None:
    with pytest.raises(LogCorruptError, match="line 1"):
        decode(KEY, b"", PATHS)


def test_the_head_of_a_file_is_enough_for_its_schema() -> None:
    whole = small()
    head = decode_head(KEY, whole[:120])
    assert head is not None
    assert head.schema == {"a": "INTEGER"}
    assert decode_head(KEY, whole[:20]) is None


def test_tombstones_are_read_from_the_head_once_all_of_them_are_in_it() -> None:
    whole = small()
    before_markers = whole.index(b'{"p":"t/_data/1')
    head = decode_head(KEY, whole[:before_markers], tombstones=True)
    assert head is not None
    assert [tombstone.p for tombstone in head.tombstones] == ["t/_log/3_w.jsonl"]
    for length in range(before_markers):
        assert decode_head(KEY, whole[:length], tombstones=True) is None


def test_a_log_file_of_many_parts_has_a_line_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    markers = [Marker(f"t/_data/{n}.parquet", n, 5) for n in range(10)]
    content = LogContent(t=5, schema={"a": "INTEGER"}, markers=markers)
    whole = encode(content)
    for size in (1, 3, 10, 11):
        monkeypatch.setattr(codec, "_LINES_AT_ONCE", size)
        assert encode(content) == whole
    assert decode("k", whole, PATHS) == content
