"""The list of packages for executors holds what the code there imports, and nothing else."""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from firnline.spark.executors import ALWAYS, CHAIN, READING, SOURCE, SPLITTING

ON_EXECUTORS = (
    "firnline.spark.worker",
    "firnline.spark.footers",
    "firnline.kernel.query.worker",
    "firnline.parquet.footer_worker",
)
"""Modules that executors load: those of the functions that Spark sends, and of child processes."""
COMPARES = "firnline.spark.comparison"
"""One that needs more, which is asked for where rows are compared."""


def imported(module: str, *, everywhere: bool) -> set[str]:
    """Names of modules that a module imports; ``everywhere``: within its functions too."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def reached(first: str, *, everywhere: bool = False) -> set[str]:
    """Packages of others that are imported with a module, directly or by firnline's modules."""
    others: set[str] = set()
    todo, seen = [first], set[str]()
    while todo:
        module = todo.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in imported(module, everywhere=everywhere):
            top = name.partition(".")[0]
            if top != "firnline":
                others.add(top)
            elif is_module(name):
                todo.append(name)
    return others - sys.stdlib_module_names


def is_module(name: str) -> bool:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # a name within a module
        return False
    return spec is not None


@pytest.mark.long
@pytest.mark.parametrize("module", ON_EXECUTORS)
def test_what_executors_load_at_once_is_in_the_list(module: str) -> None:
    assert reached(module) <= {*ALWAYS}


@pytest.mark.long
def test_every_package_of_the_list_is_one_that_executors_import() -> None:
    found = {
        name for module in (*ON_EXECUTORS, COMPARES) for name in reached(module, everywhere=True)
    }
    assert {*ALWAYS, CHAIN, READING, SPLITTING} <= found
    assert reached("firnline.parquet.partition") - {*ALWAYS} == {SPLITTING}


def test_comparisons_need_one_package_more_and_no_settings() -> None:
    assert reached(COMPARES) - {*ALWAYS} == {READING}


@pytest.mark.long
@pytest.mark.parametrize("module", ["read", "stream", "changes", "write", "sink"])
def test_the_data_source_needs_those_of_its_own_besides(module: str) -> None:
    named = {"pyyaml": "yaml"}  # the module of the package
    own = {named.get(name, name) for name in SOURCE}
    found = reached(f"firnline.spark.format.{module}") - {"pyspark"}
    assert own <= found <= {*ALWAYS, READING, SPLITTING, *own}
