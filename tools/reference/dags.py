"""Param tables of docs/airflow.md: one for every operation, from the Params of its DAG.

Importing Airflow takes two seconds, and it writes its settings file wherever AIRFLOW_HOME is.
"""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from firnline.operations.dag_ids import TABLE
from tools.bootstrap import REPO
from tools.reference.markdown import code, table

if TYPE_CHECKING:
    from airflow.sdk import DAG

FILES = sorted((REPO / "dags").glob("*.py"))
_TABLE = "TABLE"
_SETTINGS = (
    "{root: 's3://b/t', partition_by: ['month(ts)'], ttl: {column: ts, keep: 30d}, "
    "sweep: {schedule: '@weekly'}, import: {source: 's3://b/in'}, own_dags: all}"
)
"""Of a table that gets every DAG."""
_HEADER = ("param", "type", "default", "meaning")


_PAGE_LINK = re.compile(r"\[([^]]*)\]\(plugin/[^)]*\)")
"""A link to a page of Airflow, which docs cannot follow."""


@dataclass(frozen=True)
class DagParam:
    """One param of a DAG."""

    dag: str
    name: str
    schema: Mapping[str, Any]
    default: object
    description: str | None
    """Outside of the schema, for the plain form of a Param."""

    @property
    def meaning(self) -> str:
        """Return the description as Markdown, after the title if that adds to the name."""
        text = str(self.schema.get("description_md") or self.description or "")
        text = _PAGE_LINK.sub(r"\1", text)
        title = str(self.schema.get("title") or "")
        named = title.casefold().replace(" ", "_") == self.name
        return text if not text or not title or named else f"**{title}.** {text}"


def blocks() -> dict[str, str]:
    """Return the generated blocks of docs/airflow.md by name; imports Airflow."""
    with _airflow_home():
        return blocks_of(load_dags((_TABLE,)))


@contextmanager
def _airflow_home() -> Iterator[None]:
    """Point Airflow, if it has not been imported yet, to a folder that is removed afterwards."""
    with TemporaryDirectory() as home, patch.dict(os.environ, {"AIRFLOW_HOME": home}):
        yield


def load_dags(tables: tuple[str, ...], more: str = "") -> dict[str, DAG]:
    """Run all DAG files for tables with these names, and return the DAGs by id.

    Args:
        tables: names of the tables.
        more: further settings of each, as the rest of a YAML mapping: ``, mirror: [delta]``.
    """
    from airflow import sdk

    found: dict[str, DAG] = {}
    real: Any = sdk.DAG.__exit__

    def noted(dag: DAG, *args: Any) -> None:
        found[dag.dag_id] = dag
        real(dag, *args)

    with TemporaryDirectory() as folder:
        settings = Path(folder, "tables.yaml")
        given = f"{_SETTINGS.removesuffix('}')}{more}}}"
        lines = [f"  {name}: {given.replace('/t', f'/{name}')}" for name in tables]
        settings.write_text("\n".join(["tables:", *lines]), encoding="utf-8")
        here = patch.dict(os.environ, {"FIRNLINE_TABLES": str(settings)})
        with here, patch.object(sdk.DAG, "__exit__", noted):
            for path in FILES:
                runpy.run_path(str(path))
    return found


def params_of(dags: Mapping[str, DAG]) -> dict[str, list[DagParam]]:
    """Return the params by operation, of one DAG of each."""
    # Sorted, a DAG for all tables comes before those of its operation for one.
    by_operation = {id_.partition("__")[0]: dags[id_] for id_ in sorted(dags, reverse=True)}
    return {operation: _params(operation, dag) for operation, dag in by_operation.items()}


def _params(operation: str, dag: DAG) -> list[DagParam]:
    params = [(name, dag.params.get_param(name)) for name in dag.params]
    return [
        DagParam(operation, name, each.schema, each.value, each.description)
        for name, each in params
    ]


def blocks_of(dags: Mapping[str, DAG]) -> dict[str, str]:
    """Return the generated blocks for DAGs that are loaded."""
    return {
        f"params of {operation}": table(_HEADER, [_row(each) for each in params])
        for operation, params in params_of(dags).items()
    }


def _row(param: DagParam) -> tuple[str, str, str, str]:
    # Its choices are those of the settings file.
    type_ = "name of a table" if param.name == TABLE else kind(param.schema)
    return code(param.name), type_, default(param), param.meaning


def kind(schema: Mapping[str, Any]) -> str:
    """Return the type of a param in the words of a settings file."""
    choices = [value for value in schema.get("enum", ()) if value is not None]
    if choices and not isinstance(choices[0], bool):
        return "one of " + ", ".join(code(value) for value in choices)
    given = schema.get("type")
    names = [given] if isinstance(given, str) else [each for each in given or () if each != "null"]
    words = " or ".join(_word(str(name), schema) for name in names)
    least = schema.get("minimum")
    return words if least is None else f"{words}, at least {least}"


def _word(name: str, schema: Mapping[str, Any]) -> str:
    if name == "array":
        inner = schema.get("items", {}).get("type")
        return "list of strings" if inner == "string" else "list"
    if name == "string" and "pattern" in schema:
        return _of_pattern(str(schema["pattern"]))
    return "mapping" if name == "object" else name


def _of_pattern(pattern: str) -> str:
    for example, word in (("512MiB", "size"), ("90m", "duration")):
        if re.search(pattern, example):
            return word
    return "string"


def default(param: DagParam) -> str:
    """Return the default as JSON would have it; ``required`` for a param that has none."""
    if param.default is None:
        return "" if "null" in (param.schema.get("type") or ()) else "required"
    if isinstance(param.default, bool):
        return code(str(param.default).lower())
    return code(param.default)
