"""Typed params shared by several DAGs: Airflow checks their form, firnline their values.

A ``…_param`` function makes the Param; its namesake without the ending reads the value of a run.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from firnline.errors import UsageError
from firnline.units import parse_size

_SIZE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$"


def globs_param(title: str, description_md: str) -> Param:
    """Return a param for a list of globs, or nothing."""
    return Param(
        None,
        type=["array", "null"],
        items={"type": "string", "minLength": 1},
        title=title,
        description_md=description_md,
    )


def globs(name: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever was triggered with
    """Return the value of the ``globs_param`` of this name. Raises UsageError."""
    given = value or []
    if not isinstance(given, list) or not all(isinstance(glob, str) for glob in given):
        raise UsageError(
            f"{name} is not a list of globs: {given!r}",
            next_step='write it as ["ts_month=2013-*"], or leave it empty',
        )
    return tuple(given)


def partitions_param(description: str = "Empty: all partitions.") -> Param:
    """Return a param for globs over partitions."""
    example = "Globs over partitions, one a line, such as `ts_month=2013-*`. "
    return globs_param("Partitions", example + description)


def partition_globs(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever was triggered with
    """Return the value of ``partitions_param``. Raises UsageError."""
    return globs("partitions", value)


def size_param(title: str, description_md: str) -> Param:
    """Return a param for a size, or nothing."""
    return Param(
        None,
        type=["string", "null"],
        pattern=_SIZE_PATTERN,
        title=title,
        description_md=description_md,
    )


def size_value(value: Any) -> int | None:  # noqa: ANN401 - whatever was triggered with
    """Return the size in bytes; None if it was not given. Raises UsageError."""
    return None if value in (None, "") else parse_size(value)


def count_param(title: str, description_md: str, least: int = 1) -> Param:
    """Return a param for a whole number, or nothing."""
    return Param(
        None,
        type=["integer", "null"],
        minimum=least,
        title=title,
        description_md=description_md,
    )


def flag_param(title: str, description_md: str, *, default: bool = False) -> Param:
    """Return a param for a boolean."""
    return Param(default, type="boolean", title=title, description_md=description_md)
