"""Typed params that several DAGs share: Airflow checks their form as a run is created, we the rest.

A ``…_param`` makes the Param, its namesake without the ending reads what came of it.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from firnline.errors import UsageError
from firnline.units import parse_size

_SIZE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$"


def globs_param(title: str, description_md: str) -> Param:
    """A list of globs, or nothing."""
    return Param(
        None,
        type=["array", "null"],
        items={"type": "string", "minLength": 1},
        title=title,
        description_md=description_md,
    )


def globs(name: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever was triggered with
    """What the ``globs_param`` of this name was given. Raises UsageError."""
    given = value or []
    if not isinstance(given, list) or not all(isinstance(glob, str) for glob in given):
        raise UsageError(
            f"{name} is no list of globs: {given!r}",
            next_step='write it as ["ts_month=2013-*"], or leave it empty',
        )
    return tuple(given)


def partitions_param(description: str = "Empty: all partitions.") -> Param:
    """Globs over partitions."""
    example = "Globs over partitions, one a line, such as `ts_month=2013-*`. "
    return globs_param("Partitions", example + description)


def partition_globs(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - whatever was triggered with
    """What ``partitions_param`` was given. Raises UsageError."""
    return globs("partitions", value)


def size_param(title: str, description_md: str) -> Param:
    """A size, or nothing."""
    return Param(
        None,
        type=["string", "null"],
        pattern=_SIZE_PATTERN,
        title=title,
        description_md=description_md,
    )


def size_value(value: Any) -> int | None:  # noqa: ANN401 - whatever was triggered with
    """Bytes; None where nothing was given. Raises UsageError."""
    return None if value in (None, "") else parse_size(value)


def count_param(title: str, description_md: str, least: int = 1) -> Param:
    """A whole number, or nothing."""
    return Param(
        None,
        type=["integer", "null"],
        minimum=least,
        title=title,
        description_md=description_md,
    )


def flag_param(title: str, description_md: str, *, default: bool = False) -> Param:
    """Yes or no."""
    return Param(default, type="boolean", title=title, description_md=description_md)
