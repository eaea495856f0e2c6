"""Packages that are not installed: which extra brings them."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from firnline import extras
from firnline.errors import EnvironmentFaultError
from firnline.extras import EXTRAS, explained, extra_of, require

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_extra_is_one_of_the_package() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])


def test_a_package_that_is_there_is_not_complained_of() -> None:
    require("polars")
    assert explained(error := ModuleNotFoundError(name="polars.nothing")) is error


def test_a_package_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = {"pyspark", "airflow"}
    monkeypatch.setattr(extras, "find_spec", lambda n: None if n in gone else find_spec(n))
    with pytest.raises(EnvironmentFaultError) as caught:
        require("pyspark")
    assert str(caught.value) == (
        "the Python package pyspark is not installed; install it with pip install 'firnline[spark]'"
    )
    found = explained(ModuleNotFoundError("no", name="airflow.sdk"))
    assert isinstance(found, EnvironmentFaultError)
    assert extra_of("airflow") in str(found)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError(name="numpy"), ImportError("x"), ValueError(), OSError()]
)
def test_other_errors_are_what_they_were(error: Exception) -> None:
    assert explained(error) is error
