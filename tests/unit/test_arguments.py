"""What the Python interface does with arguments of other types than it declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import firnline
from firnline.arguments import _CHECKS
from firnline.errors import UsageError
from firnline.operations.options import ImportOptions, MergeOptions

API: Any = firnline
"""Without the types that a checker would refuse."""
ROWS = [{"id": 1}, {"id": 2}]
FUNCTIONS = sorted(
    name for name in firnline.__all__ if inspect.isfunction(getattr(firnline, name, None))
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    firnline.append(f"file://{tmp_path}/t", ROWS)
    return f"file://{tmp_path}/t"


def test_every_function_checks_the_arguments_that_it_declares() -> None:
    assert "append" in FUNCTIONS
    for name in [*FUNCTIONS, "Appender"]:
        function = getattr(firnline, name)
        function = function.__init__ if inspect.isclass(function) else function
        declared = [
            str(each.annotation) for each in inspect.signature(function).parameters.values()
        ]
        if any(each in _CHECKS for each in declared):
            assert hasattr(function, "__wrapped__"), name
        unknown = [each for each in declared if "Callable" in each and each not in _CHECKS]
        assert unknown == [], name


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda t: API.append(t, [{"zz": 1}], new_columns="no"),
            "new_columns is neither True",
        ),
        (
            lambda t: API.append(t, ROWS, new_columns=0),
            "new_columns is neither True nor False",
        ),
        (lambda t: API.append_rows(t, ROWS, mirror="no"), "mirror is neither True nor False"),
        (lambda t: API.append(t, ROWS, key=5), "key is not a text: 5"),
        (lambda t: API.append(t, ROWS, partition=b"d=1"), "partition is not a text: b'd=1'"),
        (lambda t: API.history(t, "5"), "limit is not a whole number: '5'"),
        (lambda t: API.history(t, None), "limit is not a whole number: None"),
        (lambda t: API.history(t, True), "limit is not a whole number: True"),
        (lambda t: API.append_files(t, None), "files is not a list of paths: None"),
        (lambda t: API.append_files(t, [""]), "one of files is empty"),
        (lambda t: API.append(t, ""), "one of files is empty"),
        (lambda t: API.append_files(t, [5]), "files is not a list of paths: [5]"),
        (lambda t: API.append_files(t, [b"x"]), "files is not a list of paths: [b'x']"),
        (lambda t: API.append_files(t, "a.parquet"), "files is one path, 'a.parquet'"),
        (lambda t: API.scan(t, columns="id"), "columns is one text, 'id'"),
        (lambda t: API.scan(t, columns=[1]), "columns is not a list of texts: [1]"),
        (lambda t: API.scan(t, columns=5), "columns is not a list of texts: 5"),
        (lambda t: API.scan(t, partitions=5), "partitions is not a list of texts: 5"),
        (lambda t: API.scan(t, dedup="no"), "dedup is neither True nor False: 'no'"),
        (lambda t: API.scan(t).head("5"), "n is not a whole number: '5'"),
        (lambda t: API.changes(t, None, columns=5), "columns is not a list of texts: 5"),
        (lambda t: API.open_table(t, access="x"), "the access is of type str"),
        (lambda t: API.scan(t, access="x"), "the access is of type str"),
        (lambda t: API.merge(t, on_progress="x"), "on_progress is no function: 'x'"),
        (
            lambda t: API.import_files(t, ImportOptions(source=t), on_progress="x"),
            "on_progress is no function: 'x'",
        ),
        (lambda t: API.Appender(t, max_rows="5"), "max_rows is not a whole number: '5'"),
        (lambda t: API.Appender(t, mirror="no"), "mirror is neither True nor False"),
        (lambda t: API.Appender(t, max_rows=0), "max_rows is 0"),
    ],
)
def test_an_argument_of_another_type_is_refused_and_nothing_is_changed(
    root: str, call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        call(root)
    assert said in str(refused.value)
    assert firnline.scan(root).columns == {"id": "BIGINT"}
    assert firnline.scan(root).count() == 2


@pytest.mark.long
def test_values_of_other_libraries_are_taken(root: str) -> None:
    names: Any = pa.array(["id"])
    assert API.scan(root, columns=names, dedup=np.bool_(False)).head(np.int64(1)).num_rows == 1
    assert API.history(root, np.int64(5)) == []
    partitions: Any = (each for each in ["*"])
    assert firnline.scan(root, partitions=partitions).count() == 2
    told: list[object] = []
    firnline.merge(root, MergeOptions(full=True), on_progress=told.append)


def test_a_call_that_python_refuses_is_refused_as_ever(root: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'new_colums'"):
        API.append(root, ROWS, new_colums=True)
