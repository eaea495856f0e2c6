"""Typed params of the DAGs: Airflow checks their form as a run is created, we check the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.errors import UsageError
from firnline.units import parse_size

if TYPE_CHECKING:
    from firnline.operations.merge import MergeOptions

_SIZE_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$"


def merge_params() -> dict[str, Param]:
    """Params of a merge; the defaults merge the whole table within its settings."""
    return {
        "partitions": Param(
            None,
            type=["array", "null"],
            items={"type": "string", "minLength": 1},
            title="Partitions",
            description_md="Globs over partitions, one a line, such as `ts_month=2013-*`. "
            "Empty: all partitions.",
        ),
        "max_bytes": Param(
            None,
            type=["string", "null"],
            pattern=_SIZE_PATTERN,
            title="Bytes to read at most",
            description_md="Such as `10GiB`; the rest waits for the next run. "
            "Empty: `max_bytes_per_run` of the table's settings.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description_md="Only plan: what would be merged is in the log of `plan` and its XCom.",
        ),
    }


def merge_options(params: Mapping[str, Any], conf: Mapping[str, Any] | None) -> MergeOptions:
    """What a run was asked to do.

    Args:
        params: of the run, defaults included.
        conf: what it was triggered with.

    Raises:
        UsageError: a param that there is not, ``max_bytes`` is no size or 0, partitions are no
            list of globs.
    """
    from firnline.operations.merge import MergeOptions

    known = list(merge_params())
    unknown = sorted(set(conf or {}) - set(known))
    if unknown:
        # Airflow lets them pass, and a mistyped dry_run would merge.
        raise UsageError(
            f"a merge has no param {', '.join(unknown)}", next_step=f"use {', '.join(known)}"
        )
    size = params.get("max_bytes")
    max_bytes = None if size in (None, "") else parse_size(size)
    if max_bytes == 0:
        raise UsageError(
            "max_bytes is 0, so nothing could be merged",
            next_step="leave it empty, or use dry_run to see the plan",
        )
    globs = params.get("partitions") or []
    if not isinstance(globs, list) or not all(isinstance(glob, str) for glob in globs):
        raise UsageError(
            f"partitions is no list of globs: {globs!r}",
            next_step='write it as ["ts_month=2013-*"], or leave it empty for all',
        )
    return MergeOptions(
        partitions=tuple(globs), max_bytes=max_bytes, dry_run=bool(params.get("dry_run"))
    )
