"""The text of a read's query, as DuckDB understands it."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import firnline
from firnline.appends.append import Appender
from firnline.errors import PartSchemaError
from firnline.read.duckdb import checked
from firnline.read.sql import _texts
from firnline.read.task import ReadTask
from tests.support.world import make_world

CONNECTION = duckdb.connect()
no_nul = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(st.lists(no_nul, min_size=1))
def test_a_list_of_texts_is_what_duckdb_makes_of_it(texts: list[str]) -> None:
    assert CONNECTION.execute(f"SELECT {_texts(texts)}").fetchall() == [(texts,)]


def test_columns_of_any_name_are_read_and_null_where_a_part_has_none() -> None:
    world = make_world()
    names = ["a\nb", "it's", 'say "x"', "a, b", "\x0b", "ü", "{c: 1}", "null"]
    for number in range(len(names)):
        world.clock.advance(10)
        Appender(world.table).append(pa.table({name: [number] for name in names[: number + 1]}))
    found = firnline.scan(world.table).duckdb()
    assert found.columns == names
    assert sorted(found.fetchall(), key=lambda row: row[0]) == [
        tuple(number if place <= number else None for place in range(len(names)))
        for number in range(len(names))
    ]


def test_a_type_of_several_columns_is_asked_for_once_and_an_unknown_one_names_its_column() -> None:
    asked: list[str] = []

    class Asked:
        def sqltype(self, kind: str) -> object:
            asked.append(kind)
            return CONNECTION.sqltype(kind)

    columns = (("a", "int"), ("b", "int"), ("c", "text"))
    task = ReadTask(parts=(), columns=columns, needed=columns)
    found = checked(task, Asked())  # type: ignore[arg-type] # a stand-in
    assert found.columns == (("a", "INTEGER"), ("b", "INTEGER"), ("c", "VARCHAR"))
    assert asked == ["int", "text"]
    wrong = ReadTask(parts=(), columns=columns, needed=(*columns, ("d", "no such type")))
    with pytest.raises(PartSchemaError, match="column 'd'"):
        checked(wrong, Asked())  # type: ignore[arg-type] # a stand-in
