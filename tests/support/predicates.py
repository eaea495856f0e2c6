"""Random predicates and rows over a table with a column of every comparable type."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from firnline.predicate.tree import COMPARISONS, And, In, IsNull, Not, Or, Predicate
from firnline.types.arrow import to_arrow
from firnline.types.values import canonical

COLUMNS = {
    "i": "INTEGER",
    "t": "UTINYINT",
    "f": "DOUBLE",
    "r": "FLOAT",
    "c": "DECIMAL(9,2)",
    "b": "BOOLEAN",
    's "q"': "VARCHAR",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "u": "UUID",
    "blob": "BLOB",
}
TEXT = st.sampled_from(["", "a", "A", "ä", "'", "a\x00b", '"; DROP', "\\", "\U0001f600", "ab"])
MOMENT = st.datetimes(
    datetime.datetime(2013, 1, 1),  # noqa: DTZ001 - drawn without zone, zoned below
    datetime.datetime(2013, 1, 2),  # noqa: DTZ001
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "t": st.integers(0, 3),
    "f": st.sampled_from([0.0, -0.0, 0.1, 1.5, -1e300, math.nan, math.inf]) | st.floats(),
    "r": st.sampled_from([0.0, 0.10000000149011612, 1.5, math.nan]) | st.floats(width=32),
    "c": st.decimals(-2, 2, places=2),
    "b": st.booleans(),
    's "q"': TEXT | st.text(max_size=3),
    "d": st.dates(datetime.date(2013, 1, 1), datetime.date(2013, 1, 4)),
    "ts": MOMENT,
    "tz": MOMENT.map(lambda moment: moment.replace(tzinfo=datetime.UTC)),
    "u": st.uuids(),
    "blob": st.binary(max_size=2),
}
COMPARABLE = [name for name in COLUMNS if name != "blob"]


def literals(name: str) -> st.SearchStrategy[Any]:
    """Literals of a column in canonical form."""
    values = VALUES[name]
    if COLUMNS[name] in ("DOUBLE", "FLOAT"):
        values = values.filter(math.isfinite)
    return values.map(lambda value: canonical(COLUMNS[name], value))


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    if draw(st.integers(0, 5)) == 0:
        return IsNull(draw(st.sampled_from(list(COLUMNS))))
    name = draw(st.sampled_from(COMPARABLE))
    if draw(st.booleans()):
        return In(name, tuple(draw(st.lists(literals(name), min_size=1, max_size=3))))
    return COMPARISONS[draw(st.sampled_from(list(COMPARISONS)))](name, draw(literals(name)))


TREES = st.recursive(
    leaves(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda args: And(tuple(args)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda args: Or(tuple(args)))
        | inner.map(Not)
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=5,
)


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    schema = to_arrow(COLUMNS)
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if field.name == "u":
            raw = [None if value is None else value.bytes for value in values]
            columns.append(field.type.wrap_array(pa.array(raw, pa.binary(16))))
        else:
            columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)
