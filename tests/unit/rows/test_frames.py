"""Frames with values that are none: refused by name, and the process goes on."""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import firnline
from firnline.errors import PartSchemaError


def endless(kind: type) -> Any:
    found = kind()
    if kind is list:
        found.append(found)
    else:
        found["a"] = found
    return found


def many(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value, "b": value}
    return value


@pytest.mark.long
@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pl.DataFrame({"v": [{1}, object()]}, schema={"v": pl.Object}), "'v' is Object: objects"),
        (pd.DataFrame({"v": [endless(list)]}), "'v' is nested deeper than"),
        (pd.DataFrame({"v": [endless(dict)]}), "'v' is nested deeper than"),
        (pd.DataFrame({"v": pd.Series(["\ud800"], dtype=object)}), "surrogates not allowed"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "does not become Arrow: Duplicate column"),
    ],
    ids=["polars", "list", "dict", "surrogate", "names"],
)
def test_what_is_no_value_is_refused(frame: Any, says: str, tmp_path: Any) -> None:
    with pytest.raises(PartSchemaError, match=says):
        firnline.append(f"file://{tmp_path}/t", frame)


def test_objects_of_values_are_taken(tmp_path: Any) -> None:
    root = f"file://{tmp_path}/t"
    firnline.append(root, pd.DataFrame({"v": [[1], None]}))
    assert firnline.scan(root).to_arrow()["v"].to_pylist() == [[1], None]


def test_one_object_that_stands_everywhere_is_refused_before_it_is_copied(tmp_path: Any) -> None:
    with pytest.raises(PartSchemaError, match="one object stands in it too often"):
        firnline.append(f"file://{tmp_path}/t", [{"v": many(30)}])


@pytest.mark.parametrize(
    "kind",
    [
        pa.json_(),
        pa.list_(pa.json_()),
        pa.struct([("a", pa.json_())]),
        pa.map_(pa.string(), pa.json_()),
    ],
    ids=str,
)
def test_a_text_that_is_no_json_is_refused_at_any_depth(kind: pa.DataType, tmp_path: Any) -> None:
    root = f"file://{tmp_path}/t"
    value: Any = "{"
    if pa.types.is_list(kind):
        value = ["1", "{"]
    elif pa.types.is_struct(kind):
        value = {"a": "{"}
    elif pa.types.is_map(kind):
        value = [("k", "{")]
    plain = pa.array([value], _plain(kind))
    with pytest.raises(PartSchemaError, match=r"column 'v' is .*JSON.*, and '{' is no JSON"):
        firnline.append(root, pa.table({"id": [1], "v": plain.cast(kind)}))


def _plain(kind: pa.DataType) -> pa.DataType:
    from firnline.types.arrow import plain_type

    return plain_type(kind)
