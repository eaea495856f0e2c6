from __future__ import annotations

import shlex

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firnline.errors import SchemaConflictError
from firnline.types.schema import agreed, normalise, union, variants
from firnline.types.sql import KEYWORDS, fold_name, quote_name
from tests.support.calls import calls_of
from tests.support.effort import examples

_NAMES = """bool logical int1 int2 int4 int8 short int long integral signed oid uint8 uint16 uint32
    uint64 hugeint int128 uhugeint uint128 float4 real float8 float double text string char bpchar
    nvarchar varchar bytea binary varbinary blob guid uuid date time timetz time_ns datetime
    timestamp timestamp_s timestamp_ms timestamp_us timestamp_ns timestamptz timestamptz_ns interval
    json bit bitstring bignum varint variant geometry decimal numeric dec"""
ALIASES = _NAMES.split()
SPELLINGS = [
    *ALIASES,
    "double precision",
    "character varying",
    "Timestamp  With\tTime Zone",
    "timestamp without time zone",
    "time with time zone",
    "varchar(10)",
    "decimal(10)",
    "numeric( 12 , 4 )",
    "timestamp(0)",
    "timestamp(3)",
    "timestamp(4)",
    "timestamp(9)",
    "int array",
    "int array[3]",
    "int[3][]",
    "timestamptz[]",
    "enum('a', 'b''c')",
    'union(a int, "b c" text)',
    'row(a int4, "b c" text, "x""y" decimal(4,1)[])',
    'struct("select" int, "year" int, "A" int, "É" int, "1a" int, _x int, a1 int)',
    "map( text , struct(k int, v map(int2,float8)) )",
]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def spelled_by_duckdb(connection: duckdb.DuckDBPyConnection, type_text: str) -> str:
    row = connection.execute(f"SELECT typeof(CAST(NULL AS {type_text}))").fetchone()
    assert row is not None
    return str(row[0])


def test_names_are_compared_as_duckdb_compares_them(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    for one, other in [("a", "A"), ("é", "É"), ("ß", "ẞ"), ("k", "\u212a"), ("Ab_1", "aB_1")]:
        try:
            connection.execute(f'SELECT CAST(NULL AS STRUCT("{one}" INTEGER, "{other}" INTEGER))')
        except duckdb.BinderException:
            assert fold_name(one) == fold_name(other)
        else:
            assert fold_name(one) != fold_name(other)


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_type_is_spelled_as_duckdb_spells_it(
    connection: duckdb.DuckDBPyConnection, text: str
) -> None:
    assert normalise(text) == spelled_by_duckdb(connection, text)


def test_the_keyword_list_is_that_of_the_installed_duckdb(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    rows = connection.execute("SELECT lower(keyword_name) FROM duckdb_keywords()").fetchall()
    assert frozenset(word for (word,) in rows) == KEYWORDS


FIELD_NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
) | st.sampled_from(["select", "value", "key", "a b", 'q"q', "A", "b1", "_"])


def nested(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def struct(fields: dict[str, str]) -> str:
        return f"STRUCT({', '.join(f'{quote_name(name)} {kind}' for name, kind in fields.items())})"

    fields = st.dictionaries(FIELD_NAMES, leaves, min_size=1, max_size=3)
    return (
        leaves.map(lambda kind: f"{kind}[]")
        | st.tuples(leaves, leaves).map(lambda pair: f"MAP({pair[0]}, {pair[1]})")
        | fields.filter(lambda names: len({fold_name(n) for n in names}) == len(names)).map(struct)
    )


@pytest.mark.long
@examples(60, 1_000)
@given(text=st.recursive(st.sampled_from(ALIASES), nested, max_leaves=6))
def test_nested_types_are_spelled_as_duckdb_spells_them(
    connection: duckdb.DuckDBPyConnection, text: str
) -> None:
    spelled = spelled_by_duckdb(connection, text)
    assert normalise(text) == spelled
    assert normalise(spelled) == spelled


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  NEW_TYPE ", "NEW_TYPE"),
        ("Quantum( 3 ,4)  x", "Quantum( 3 ,4) x"),
        ("STRUCT(a", "STRUCT(a"),
        ("INTEGER[", "INTEGER["),
        ("MAP(INTEGER)", "MAP(INTEGER)"),
        ("", ""),
        ("[]" * 5000, "[]" * 5000),
        ("STRUCT(a " * 3000, " ".join(["STRUCT(a"] * 3000)),
        ('"NULL"', '"NULL"'),
    ],
)
def test_a_text_that_is_no_known_type_is_kept(text: str, kept: str) -> None:
    assert normalise(text) == kept


def test_the_union_keeps_the_order_in_which_columns_are_first_seen() -> None:
    lines = [("1", {"b": "TEXT", "a": "INT4"}), ("2", {"c": "DATE", "a": "INTEGER"})]
    assert union(lines) == {"b": "VARCHAR", "a": "INTEGER", "c": "DATE"}
    assert union([]) == {}


def test_a_type_conflict_names_the_column_both_types_and_both_log_files() -> None:
    lines = [("one.jsonl", {"a": "int"}), ("two.jsonl", {"b": "int"}), ("3.jsonl", {"a": "text"})]
    with pytest.raises(SchemaConflictError) as caught:
        union(lines)
    for piece in ("'a'", "INTEGER", "VARCHAR", "one.jsonl", "3.jsonl"):
        assert piece in str(caught.value)
    assert "`firnline schema show TABLE`" in caught.value.next_step
    assert "`firnline schema fix TABLE --column a --type INTEGER`" in caught.value.next_step


def test_the_next_step_can_be_copied_into_a_shell() -> None:
    with pytest.raises(SchemaConflictError) as caught:
        union([("1", {"it's": "DECIMAL(10,2)"}), ("2", {"it's": "DATE"})])
    command = caught.value.next_step.split("`")[3]
    assert shlex.split(command)[4:] == ["--column", "it's", "--type", "DECIMAL(10,2)"]


def test_one_command_repairs_all_columns_in_conflict() -> None:
    lines = [
        ("1", {"a": "int", "b": "text", "c": "DATE", "d": "int"}),
        ("2", {"a": "BIGINT", "B": "VARCHAR", "c": "TIMESTAMP", "d": "INTEGER"}),
    ]
    with pytest.raises(SchemaConflictError) as caught:
        union(lines)
    assert caught.value.message == (
        "log files contradict each other on 3 columns: a (INTEGER and BIGINT); "
        "b (b VARCHAR and B VARCHAR); c (DATE and TIMESTAMP)"
    )
    assert (
        "`firnline schema fix TABLE --column a --type INTEGER --column b --type VARCHAR "
        "--column c --type DATE`"
    ) in caught.value.next_step


def test_variants_tell_everything_that_is_said_and_agreed_what_nobody_disputes() -> None:
    lines = [
        ("1", {"a": "int", "b": "text", "c": "DATE"}),
        ("2", {"a": "INTEGER", "B": "VARCHAR"}),
        ("3", {"c": "TIMESTAMP", "a": "int4"}),
    ]
    assert variants(lines) == {
        "a": {("a", "INTEGER"): ["1", "2", "3"]},
        "b": {("b", "VARCHAR"): ["1"], ("B", "VARCHAR"): ["2"]},
        "c": {("c", "DATE"): ["1"], ("c", "TIMESTAMP"): ["3"]},
    }
    assert agreed(lines) == {"a": "INTEGER"}


def test_columns_that_differ_only_in_case_are_a_conflict() -> None:
    with pytest.raises(SchemaConflictError, match="case of its letters") as caught:
        union([("one.jsonl", {"User": "BIGINT"}), ("two.jsonl", {"user": "BIGINT"})])
    assert "one.jsonl" in str(caught.value)
    assert "two.jsonl" in str(caught.value)
    with pytest.raises(SchemaConflictError):
        union([("one.jsonl", {"x": "INTEGER", "X": "INTEGER"})])


def test_thousands_of_equal_lines_are_united_once() -> None:
    columns = {f"column_{index}": "STRUCT(a INTEGER)" for index in range(50)}
    few, many = ([(f"{n}.jsonl", dict(columns)) for n in range(count)] for count in (100, 10_000))
    assert union(few) == union(many) == columns
    # What is done for a column is done once, and less than two calls for every further line.
    assert calls_of(lambda: union(many)) < calls_of(lambda: union(few)) + 2 * 9_900


@given(
    lines=st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["INT", "integer"])), max_size=6
    )
)
def test_the_set_of_columns_does_not_depend_on_order_or_repetition(
    lines: list[dict[str, str]],
) -> None:
    named = [(str(index), line) for index, line in enumerate(lines)]
    assert union(named) == union([*named, *named])
    assert union(named).items() == union(named[::-1]).items()
