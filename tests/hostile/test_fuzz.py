"""Whatever text reaches a parser: a value, or one error of ours. Never another exception.

Structured: mostly valid, with pieces replaced, repeated, nested and cut, so that more than the
first check is reached. The same examples every time; `make test-full` tries new ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firnline.appends.append import Appender
from firnline.log import codec, txn_file
from firnline.log.heads import decode_head
from firnline.log.records import Marker, hashes_json
from firnline.log.txn_file import TxnHeader
from firnline.log.union import combine
from firnline.operations.erase.key_files import read_keys
from firnline.operations.erase.keys import key_set
from firnline.parquet.partition import span_of
from firnline.paths import Root, TablePaths, unquote_value
from firnline.predicate.pruning import Pruner
from firnline.predicate.sql import parse_sql
from firnline.predicate.tree import Predicate, bind, parse_json, to_json, to_sql
from firnline.settings.fields import PartitionField
from firnline.types.sql import parse_sql_type
from firnline.units import format_duration, format_size, parse_duration, parse_size
from tests.support.effort import FULL, examples
from tests.support.hostile import reading
from tests.support.predicates import COLUMNS, TREES
from tests.support.world import make_world


def bounded(count: int) -> settings:
    """The same examples every time, or in `make test-full` a hundred times as many, new ones."""
    return examples(count, count * 100, derandomize=not FULL)


PATHS = TablePaths("t")
KEY = "t/_log/1700000000000_w.jsonl"
TXN = "018bcfe5-6800-7000-8000-000000000001"
NUMBERS: st.SearchStrategy[Any] = st.sampled_from(
    [0, 1, 2, 3, 4, 5, -1, 13, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 1.0, 1.5, -0.0, 1e308]
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    ["t/_data/a.parquet", "t/_data/../x", "other/_data/x", "t/_log/1_x.jsonl", "INTEGER", "\x00"]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=3,
)


def records(valid: dict[str, Any], *optional: str) -> st.SearchStrategy[dict[str, Any]]:
    """A record with one field or another missing, replaced, or added."""
    usual = {name: st.just(value) | JSON for name, value in valid.items() if name not in optional}
    more = {name: st.just(valid[name]) | JSON for name in optional}
    whole = st.fixed_dictionaries(usual, optional=more)
    return st.one_of(
        whole,
        whole,
        whole.flatmap(lambda record: st.dictionaries(TEXTS, JSON, max_size=1).map(record.__or__)),
        whole.map(lambda record: dict(list(record.items())[1:])),
    )


HEADERS = records(
    {
        "v": 1,
        "t": 5,
        "sch": 1,
        "f": 2,
        "ext": 2,
        "tmb": 3,
        "x": {"seq": 1, "txn": TXN, "op": "merge", "purged": 0},
    },
    "ext",
    "tmb",
    "x",
)
MARKERS = records(
    {
        "p": "t/_data/a.parquet",
        "b": 1,
        "t": 1,
        "tmb": 2,
        "n": 3,
        "q": 1,
        "d": ["x"],
        "o": [1, 2],
        "s": {"i": [1, 2, 0]},
    },
    *("tmb", "n", "q", "d", "o", "s"),
)
STONES = records({"p": "t/_log/1_x.jsonl", "t": 1})
WHERE = {"op": "<", "column": "i", "value": 3}
DELETES = records({"id": "x", "seq": 1, "t": 1, "where": WHERE, "partitions": ["*"]}, "partitions")
EXTENSIONS = st.one_of(DELETES.map(lambda d: {"del": d}), JSON, st.just({"later": 1}))
LINES = st.lists(
    MARKERS | STONES | EXTENSIONS | st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=4
)


@st.composite
def log_files(draw: st.DrawFn) -> bytes:
    header, schema = draw(HEADERS), draw(st.just({"i": "INTEGER"}) | JSON)
    lines = [json.dumps(line).encode() for line in draw(LINES)]
    head = b"\n".join(json.dumps(line).encode() for line in (header, schema))
    data = codec.seal(head, b"\n".join(lines)) if draw(st.booleans()) else head
    data = data if "sum" in data.decode() else b"\n".join([head, *lines])
    return draw(cuts(data))


@st.composite
def cuts(draw: st.DrawFn, data: bytes) -> bytes:
    """Mostly whole; else with a piece lost, doubled or replaced."""
    if draw(st.integers(0, 2)):
        return data
    start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
    piece = draw(st.sampled_from([b"", data[start:end] * 2, b"\n", b'"', b"{}", b"\xff", b"\x00"]))
    return data[:start] + piece + data[end:]


@bounded(250)
@given(log_files() | st.binary(max_size=80))
def test_any_log_file_reads_or_is_named(data: bytes) -> None:
    content = reading(KEY, codec.decode, KEY, data, PATHS)
    reading(KEY, decode_head, KEY, data, tombstones=True)
    if content is None:
        return
    assert all(m.p.startswith("t/_data/") for m in content.markers)
    assert all(isinstance(m.stats(), dict) and len(m.order()) == 2 for m in content.markers)
    again = codec.decode(KEY, codec.encode(content), PATHS)
    assert codec.encode(again) == codec.encode(content), "what was read can be folded"


TXN_LOG = f"t/_log/1700000000000_m_{1:020d}-{TXN}.jsonl"
TXN_HEADERS = records(
    {
        "seq": 1,
        "txn": TXN,
        "op": "merge",
        "base": 0,
        "t": 5,
        "log": TXN_LOG,
        "v": 1,
        "run": {"user": "ana"},
        "counts": {"rows_in": 3},
        "partitions": ["d=1"],
    },
    *("v", "run", "counts", "partitions"),
)


@bounded(120)
@given(TXN_HEADERS, log_files(), st.data())
def test_any_transaction_reads_or_is_named(
    header: dict[str, Any], log: bytes, data: st.DataObject
) -> None:
    key = "t/_txn/00000000000000000001.jsonl"
    whole = codec.seal(json.dumps(header).encode(), log)
    found = reading(key, txn_file.decode, key, data.draw(cuts(whole)), PATHS)
    assert found is None or isinstance(found[0], TxnHeader)
    reading(key, txn_file.decode_header, key, whole[:40], PATHS)


OPS = ["and", "or", "not", "=", "!=", "<", "<=", ">", ">=", "in", "is_null", "like", "", 1]
NAMES = st.sampled_from([*COLUMNS, "I", "nothing", "", "\x00", 5])
LITERALS = JSON | st.sampled_from(["2013-01-01", "1.50", "2013-01-01T00:00:00.000000", True])
PREDICATES: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries(
        {"op": st.sampled_from(OPS), "column": NAMES},
        optional={"value": LITERALS, "values": st.lists(LITERALS, max_size=3) | LITERALS},
    ),
    lambda inner: st.fixed_dictionaries(
        {"op": st.sampled_from(OPS)},
        optional={"args": st.lists(inner, max_size=3) | JSON, "arg": inner},
    ),
    max_leaves=5,
)


def judged(tree: Any) -> None:
    """What a predicate that was taken has to stand."""
    assert parse_json(to_json(tree)) == tree, "it comes back from the log as it went in"
    assert "\x00" not in to_sql(tree, COLUMNS)
    Pruner(tree, COLUMNS).outcomes({"i": (1, 2, 0), "f": (None, None, 3), "d": ("x", 5, 0)})


RANGES = st.lists(
    JSON
    | st.tuples(
        st.lists(NAMES, max_size=2) | JSON,
        st.lists(st.sampled_from(["long", "text", "date", "decimal2", ""]) | JSON, max_size=2),
        st.integers(-(2**70), 2**70) | st.sampled_from([0, 1, 64]),
        st.none() | st.integers(-(2**70), 2**70),
        st.none() | st.integers(-(2**70), 2**70) | JSON,
    ),
    max_size=3,
)


@bounded(200)
@given(RANGES, TREES, st.data())
def test_any_hash_ranges_of_a_marker_are_used_or_passed_over(
    value: Any, tree: Predicate, data: st.DataObject
) -> None:
    text = data.draw(cuts(json.dumps(value).encode()))
    marker = Marker(p="t/_data/x.parquet", b=1, t=1, h=msgspec.Raw(text))
    found = marker.hashes()
    Pruner(tree, COLUMNS).outcomes({}, found)
    other = msgspec.structs.replace(marker, h=hashes_json(found))
    assert combine(marker, other) == combine(other, marker)


@bounded(400)
@given(PREDICATES | TREES.map(lambda tree: json.loads(to_json(tree))), st.data())
def test_any_json_is_a_predicate_or_refused(value: Any, data: st.DataObject) -> None:
    text = data.draw(cuts(json.dumps(value).encode()))
    tree = reading("", parse_json, text)
    bound = None if tree is None else reading("", bind, tree, COLUMNS)
    if bound is not None:
        judged(bound)


WORDS = st.sampled_from(
    [
        *COLUMNS,
        *r"""
        s 1 -1 0 1.5 1e3 1e400 1e 0x1 1_000 .5 5. 1..2 'a' 'it''s' '' NULL true false DATE TIMESTAMP
        '2013-01-01' '2013-01-01T12:00' = != <> < <= > >= and or not in ( ) , is null between like
        :: CAST AS INTEGER [ ] { } ; -- /* */ $$ ? $1 || + - * case when then else end exists select
        from where union order by limit interval array any distinct ~ ! @ # % ^ & | \ " ' E'\n' :=
        -> x:
        """.split(),  # noqa: SIM905 - a list of eighty short texts would not be read by anybody
        '"s ""q"""',
        "\x00",
        "\udc80",
        "\U0001f600",
        "(select 1)",
        "i = 1",
        "and d < DATE '2013-02-01'",
    ]
)


@bounded(400)
@given(st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=20))
def test_any_sql_is_a_predicate_or_refused(text: str) -> None:
    tree = reading("", parse_sql, text, COLUMNS)
    if tree is not None:
        judged(tree)


SEGMENTS = st.sampled_from(["d=1", "..", ".", "", "a\x00", "%2F", "é", "x" * 300, "_log", "a b"])


@bounded(400)
@given(st.lists(SEGMENTS | st.text(max_size=5), max_size=4).map("/".join))
def test_any_key_is_the_tables_own_or_refused(path: str) -> None:
    for key in (path, f"t/{path}", f"t/_data/{path}", f"t/_log/{path}.jsonl", f"t/_txn/{path}"):
        part = reading("", PATHS.parse_part, key)
        assert part is None or PATHS.data_dir + f"{part.partition}/{part.name}".lstrip("/") == key
        reading("", PATHS.parse_log, key)
        reading("", PATHS.parse_txn, key)
    root = reading("", Root.parse, f"s3://{path}")
    assert root is None or ".." not in root.prefix.split("/")
    fields = (PartitionField.model_validate("day(ts)"),)
    span_of(path, fields)
    assert isinstance(unquote_value(path), str)


@bounded(50)
@given(st.text(max_size=12) | st.lists(SEGMENTS, max_size=3).map("/".join))
def test_any_partition_of_an_append_is_a_folder_of_the_table_or_refused(path: str) -> None:
    import pyarrow as pa

    world = make_world()
    done = reading("", Appender(world.table).append, pa.table({"n": [1]}), path)
    parts = [key for key in world.store.objects if "/_data/" in key]
    assert len(parts) == (0 if done is None else 1)
    for key in parts:
        PATHS.check_part(key)


QUANTITIES = st.one_of(
    st.from_regex(r"\s?[0-9٣²]{1,25}(\.[0-9]{1,25})?\s?[A-Za-zµ]{0,4}", fullmatch=True),
    st.text(max_size=8),
    NUMBERS,
    st.floats(),
    JSON,
    st.integers(4000, 5000).map(lambda n: 10**n),
    st.integers(4000, 5000).map(lambda n: "9" * n + "d"),
)


@bounded(250)
@given(QUANTITIES)
def test_any_size_and_duration_is_exact_or_refused(value: Any) -> None:
    size = reading("", parse_size, value)
    assert size is None or parse_size(format_size(size)) == size >= 0
    duration = reading("", parse_duration, value)
    assert duration is None or parse_duration(format_duration(duration)) == duration >= 0


TYPES = ["INTEGER", "decimal(9,2)", 'STRUCT(a INT[], "b c" MAP(INT, TEXT))', "ENUM('a', 'b''c')"]


PIECES = st.sampled_from([*TYPES, "(", ")", "[", "]", ",", "'", '"', "9", " "])


@bounded(200)
@given(st.lists(PIECES, max_size=6).map("".join) | st.text(max_size=12))
def test_any_text_is_a_type_or_none(text: str) -> None:
    kind = reading("", parse_sql_type, text)
    assert kind is None or parse_sql_type(str(kind)) == kind


KEY_COLUMNS = {"i": "INTEGER", "s": "VARCHAR", "d": "DATE", "u": "UUID", "b": "BOOLEAN"}


@bounded(150)
@given(
    st.lists(st.sampled_from([*KEY_COLUMNS, "I", "nothing", "f"]), max_size=3),
    st.lists(st.lists(JSON | st.sampled_from(["2013-01-01", TXN, "7"]), max_size=3), max_size=3),
)
def test_any_keys_are_taken_exactly_or_refused_without_telling_them(
    columns: list[str], rows: list[list[Any]]
) -> None:
    found = reading("", key_set, columns, rows, {**KEY_COLUMNS, "f": "DOUBLE"}, "the keys")
    if found is not None:
        for where in found.predicates():
            bind(parse_json(where), KEY_COLUMNS)
        assert len(found.digest("s")) == 64


@bounded(100)
@given(
    st.lists(st.lists(st.text("a1,;\"'\n\r\t é\x00", max_size=5), max_size=3), max_size=4).map(
        lambda rows: "i,s\n" + "\n".join(map(",".join, rows))
    )
    | st.text(max_size=20),
    st.sampled_from([("i",), ("s",), ("i", "s"), ("nothing",)]),
    st.sampled_from(["utf-8", "utf-16", "latin-1"]),
)
def test_any_csv_is_keys_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, columns: tuple[str, ...], coding: str
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "keys.csv"
    path.write_bytes(text.encode(coding, "replace"))
    table = make_world().table
    reading("", read_keys, table, columns, KEY_COLUMNS, str(path))
