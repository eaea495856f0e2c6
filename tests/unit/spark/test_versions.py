"""What differs between versions of Spark stands in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firnline.errors import EnvironmentFaultError
from firnline.spark import versions
from firnline.spark.source import register
from firnline.spark.versions import release_of

OWNER = Path(versions.__file__)
MOVED = {"addArtifacts", "addPyFile", "metadataColumn"}
"""Methods that not every version of Spark has."""
DATA_SOURCE = {
    *("DataSource", "DataSourceReader", "DataSourceStreamReader", "InputPartition"),
    *("DataSourceWriter", "DataSourceArrowWriter", "DataSourceStreamWriter", "WriterCommitMessage"),
}
"""Names of ``pyspark.sql.datasource`` in Spark 4.0."""


def moved_names(path: Path) -> Iterator[str]:
    """Names of pyspark in a file that are not the same in every version."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in MOVED:
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and node.module == "pyspark.sql.datasource":
            yield from {alias.name for alias in node.names} - DATA_SOURCE
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            yield from {alias.name for alias in node.names} & {"datasource", "to_arrow_schema"}


@pytest.mark.long
def test_names_that_not_every_version_has_are_used_in_one_module_alone() -> None:
    package = OWNER.parent  # the only one that imports pyspark
    users = {path for path in package.rglob("*.py") if set(moved_names(path))}
    assert users == {OWNER}


@pytest.mark.parametrize(
    ("version", "release"),
    [("3.5.6", (3, 5)), ("3.5.6-amzn-1", (3, 5)), ("4.10.0.dev1", (4, 10)), ("4.0.2", (4, 0))],
)
def test_of_a_version_major_and_minor_number_count(version: str, release: tuple[int, int]) -> None:
    assert release_of(version) == release


def test_a_version_that_is_none_is_named() -> None:
    with pytest.raises(EnvironmentFaultError, match="'unknown', which is no version of Spark"):
        release_of("unknown")


@pytest.fixture
def without_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SPARK_4_0_PLUS", False)
    monkeypatch.setattr(versions, "VERSION", "3.5.6")


@pytest.mark.usefixtures("without_sources")
def test_before_4_0_the_source_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(
        EnvironmentFaultError, match=r"needs Spark 4\.0 or newer, and this is 3\.5\.6; read with"
    ):
        register(None)  # type: ignore[arg-type]  # no session is looked at


@pytest.mark.usefixtures("without_sources")
def test_before_4_0_a_connect_server_is_refused() -> None:
    with pytest.raises(EnvironmentFaultError, match=r"PySpark 4\.0 or newer, and this is 3\.5\.6"):
        versions.refuse_connect()


class Sent:
    """As much of a session as takes a package."""

    def __init__(self) -> None:
        self.sparkContext, self.by = self, list[str]()

    def addArtifacts(self, _: str, *, pyfile: bool) -> None:  # noqa: N802 -- Spark's
        self.by.append("artifact" if pyfile else "file")

    def addPyFile(self, _: str) -> None:  # noqa: N802 -- Spark's
        self.by.append("python file")


@pytest.mark.parametrize(("newer", "by"), [(True, "artifact"), (False, "python file")])
def test_a_package_is_sent_as_this_spark_takes_it(
    monkeypatch: pytest.MonkeyPatch, newer: bool, by: str
) -> None:
    monkeypatch.setattr(versions, "SPARK_4_0_PLUS", newer)
    session: Any = Sent()
    versions.send_package(session, Path("firnline.zip"))
    assert session.by == [by]
