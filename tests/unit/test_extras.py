"""Packages that are not installed: which extra brings them."""

from __future__ import annotations

import shlex
import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from firnline import extras
from firnline.errors import EnvironmentFaultError
from firnline.extras import EXTRAS, PROVIDERS, explained, explaining, require, to_install

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_extra_is_one_of_the_package() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("package", sorted(EXTRAS))
def test_what_is_printed_installs_what_the_extra_asks_for(package: str) -> None:
    # Not firnline[polars]: pip would look for firnline in an index.
    wanted = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    pip, install, *requirements = shlex.split(to_install(package))
    assert (pip, install) == ("pip", "install")
    assert {*map(Requirement, requirements)} == {*map(Requirement, wanted[EXTRAS[package]])}


def test_a_package_that_no_extra_brings_is_installed_by_its_name() -> None:
    assert "pandas" not in EXTRAS
    assert to_install("pandas") == "pip install pandas"


def test_without_metadata_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr(extras, "requires", none)
    assert to_install("polars") == "pip install 'firnline[polars]'"


def test_a_package_that_is_there_is_not_complained_of() -> None:
    require("polars")
    assert explained(error := ModuleNotFoundError(name="polars.nothing")) is error


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = {"pyspark", "airflow"}
    monkeypatch.setattr(extras, "find_spec", lambda n: None if n in gone else find_spec(n))
    with pytest.raises(EnvironmentFaultError) as caught:
        require("pyspark")
    assert str(caught.value) == (
        "the Python package pyspark is not installed; install it with " + to_install("pyspark")
    )
    found = explained(ModuleNotFoundError("no", name="airflow.sdk"))
    assert isinstance(found, EnvironmentFaultError)
    assert to_install("airflow") in str(found)


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError(name="numpy"), ImportError("x"), ValueError(), OSError()]
)
def test_other_errors_are_what_they_were(error: Exception) -> None:
    assert explained(error) is error


PROVIDER = "apache-airflow-providers-apache-spark"


@pytest.mark.parametrize("name", ["airflow.providers.apache", "airflow.providers.apache.spark"])
def test_a_provider_of_airflow_that_is_missing_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(distribution: str) -> str:
        raise PackageNotFoundError(distribution)

    error = ModuleNotFoundError(f"No module named {name!r}", name=name)
    assert explained(error) is error, "it is installed, and lacks something itself"
    monkeypatch.setattr(extras, "version", known)
    with pytest.raises(EnvironmentFaultError) as found, explaining():
        raise error
    assert found.value.message == f"the provider {PROVIDER} of Airflow is not installed"
    assert found.value.next_step.startswith(f"install it with pip install '{PROVIDER}>=")
    with pytest.raises(ModuleNotFoundError), explaining():
        raise ModuleNotFoundError("No module named 'x'", name="x")


def test_every_provider_that_is_named_is_one_of_the_extra() -> None:
    wanted = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["airflow"]
    assert set(PROVIDERS.values()) <= {Requirement(each).name for each in wanted}
