"""Keys of erases: every type, several records, one digest, and no key in an error."""

from __future__ import annotations

import hashlib
import hmac
import io
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import UsageError
from firnline.operations.erase.keys import KeySet, key_set
from firnline.predicate import tree as predicate
from firnline.predicate.pruning import evaluate
from tests.support.effort import examples
from tests.support.predicates import COLUMNS, VALUES, arrow, literals
from tests.support.world import make_world

SCHEMA = {"i": "BIGINT", "s": "VARCHAR", "f": "DOUBLE", "h": "HUGEINT", "blob": "BLOB"}
EXACT = [name for name, kind in COLUMNS.items() if kind not in ("DOUBLE", "FLOAT", "BLOB")]


SECRET = "0f" * 32


def keys_of(columns: list[str], rows: list[tuple[Any, ...]], schema: Any = None) -> KeySet:
    return key_set(columns, rows, schema or SCHEMA, "the test")


@pytest.fixture(scope="module")
def place() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@pytest.mark.long
@examples(40, 1_000)
@given(data=st.data(), name=st.sampled_from(EXACT))
def test_the_object_of_keys_matches_the_rows_that_the_delete_record_hides(
    place: duckdb.DuckDBPyConnection, data: st.DataObject, name: str
) -> None:
    keys = data.draw(st.lists(literals(name), min_size=1, max_size=4))
    values = data.draw(st.lists(st.none() | VALUES[name], min_size=1, max_size=6))
    found = keys_of([name], [(key,) for key in keys], COLUMNS)
    world = make_world()
    file = found.upload(world.table, "t/_erase/k.parquet")
    stored = pq.read_table(io.BytesIO(world.store.objects[file.key][0]))
    row = dict.fromkeys(COLUMNS)
    part = arrow([{**row, name: value} for value in values])
    place.register("rows", part)
    place.register("keys", stored)
    quoted = '"' + name.replace('"', '""') + '"'
    joined = place.execute(f"SELECT {quoted} IN (SELECT {quoted} FROM keys) FROM rows").fetchall()
    (where,) = found.predicates()
    tree = predicate.parse_json(where)
    hidden = [evaluate(tree, {name: value}, COLUMNS) is True for value in values]
    assert [answer is True for (answer,) in joined] == hidden


@pytest.mark.long
def test_more_keys_than_a_predicate_holds_are_several_records() -> None:
    found = keys_of(["i"], [(n,) for n in range(predicate.MAX_NODES + 1)])
    trees = [predicate.parse_json(where) for where in found.predicates()]
    assert [len(t.values) for t in trees if isinstance(t, predicate.In)] == [99_999, 2]


@pytest.mark.long
def test_keys_of_several_columns_are_alternatives_of_conjunctions() -> None:
    found = keys_of(["s", "i"], [("a", 1), ("b", 2)])
    (where,) = found.predicates()
    tree = predicate.parse_json(where)
    assert evaluate(tree, {"s": "a", "i": 1}, SCHEMA) is True
    assert evaluate(tree, {"s": "a", "i": 2}, SCHEMA) is False
    many = keys_of(["s", "i"], [("a", n) for n in range(40_000)])
    assert len([predicate.parse_json(where) for where in many.predicates()]) == 2


def test_keys_are_distinct_sorted_and_have_one_digest() -> None:
    one, other = keys_of(["i"], [("7",), (3,), (7,)]), keys_of(["I"], [(3,), (7.0,)])
    assert one.keys == other.keys == ((3,), (7,))
    assert one.digest(SECRET) == other.digest(SECRET)
    assert keys_of(["s"], [("3",), ("7",)]).digest(SECRET) != one.digest(SECRET)


def test_the_digest_can_be_computed_by_others() -> None:
    text = b'["s"]\n["a"]\n["b"]'
    found = keys_of(["s"], [("b",), ("a",)])
    expected = hmac.new(bytes.fromhex(SECRET), text, hashlib.sha256).hexdigest()
    assert found.digest(SECRET) == expected
    assert found.digest("") == hashlib.sha256(text).hexdigest()  # of certificates of version 1


@pytest.mark.parametrize("column", ["f", "h"])
def test_columns_whose_values_are_not_exact_are_refused(column: str) -> None:
    with pytest.raises(UsageError, match="whose values are not exact"):
        keys_of([column], [(1,)])


@pytest.mark.parametrize("kind", ["VARCHAR[]", "STRUCT(a BIGINT)", "BLOB", "TIME"])
def test_a_column_whose_values_cannot_be_compared_is_refused_by_its_type(kind: str) -> None:
    with pytest.raises(UsageError) as refused:
        keys_of(["k"], [("a",)], {"k": kind})
    assert f"column 'k' is {kind}, whose values cannot be compared" in refused.value.message
    assert "numbers, texts, dates" in refused.value.next_step


def test_no_error_tells_a_key() -> None:
    for column, value in (("i", "secret"), ("blob", "secret"), ("s", 4711)):
        with pytest.raises(UsageError) as raised:
            keys_of([column], [(value,)])
        assert str(value) not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["1e1", "7.0", "5.", "1_000", "+7", " 7", "0x7", "\u0661\u0660", ""]
)
def test_a_text_is_a_number_only_if_it_is_written_as_one(text: str) -> None:
    for column, schema in (("i", SCHEMA), ("u", {"u": "UBIGINT"})):
        with pytest.raises(UsageError, match="nothing that column"):
            keys_of([column], [(text,)], schema)
    assert keys_of(["s"], [(text,)]).keys == ((text,),)


def test_whole_numbers_and_decimals_may_be_texts() -> None:
    assert keys_of(["i"], [("-7",), ("007",)]).keys == ((-7,), (7,))
    decimals = {"d": "DECIMAL(9,2)"}
    assert keys_of(["d"], [("1.50",)], decimals).keys == keys_of(["d"], [("1.5",)], decimals).keys
    with pytest.raises(UsageError, match="nothing that column"):
        keys_of(["d"], [("1e1",)], decimals)
