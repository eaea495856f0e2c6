"""Rules of mirrors in an Iceberg catalog, each of which can be switched off.

The mirror is imported where a rule is broken: other worlds do not load pyiceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from simulation.rules.breaking import Mutation, put


def _table_before_catalog() -> None:
    from firnline.mirror.iceberg import publish

    real, plan = publish.__dict__["read_base"], publish.__dict__["plan_next"]

    def plan_next(table: Any, opened: Any) -> Any:
        base = real(table)
        put(publish, "read_base", lambda _: base)
        try:
            return plan(table, opened)
        finally:
            put(publish, "read_base", real)

    put(publish, "plan_next", plan_next)


def _never_waits() -> None:
    from firnline.mirror.iceberg import hold

    put(hold, "find_hold", lambda *_: None)


def _record_before_commit() -> None:
    from firnline.mirror.iceberg import publish
    from firnline.mirror.iceberg.shown import put_record

    real = publish.__dict__["_commit"]

    def commit(table: Any, found: Any, position: Any, *args: Any) -> Any:
        put_record(table.store, table.paths, position.seq, position.t)
        return real(table, found, position, *args)

    put(publish, "_commit", commit)


def _metadata_of_any_age() -> None:
    from firnline.mirror.iceberg import sweep

    put(sweep, "kept_ms", lambda _: 0)


def _newest_alone() -> None:
    from firnline.mirror.iceberg import sweep

    put(sweep, "_former", lambda *_: None)


def _grace_of_settings() -> None:
    from firnline.mirror.iceberg import sweep

    real = sweep.keep_short

    def keep_short(table: Any, version: int, _grace: int) -> Any:
        return real(table, version, table.settings.cleanup.grace)

    put(sweep, "keep_short", keep_short)


def _bounds_stay() -> None:
    from firnline.mirror.iceberg import produce

    put(produce, "without_bounds", lambda file: file)


def _old_snapshots_stay() -> None:
    from firnline.mirror.iceberg import erasure

    put(erasure, "expire_before", lambda *_: ())


def _writes_whenever() -> None:
    from firnline.mirror.iceberg.io import Place

    @contextmanager
    def while_in_time(*_: Any) -> Iterator[None]:
        yield

    Place.while_in_time = while_in_time  # type: ignore[assignment,method-assign] # the point of it


def _misread_stays() -> None:
    from firnline.mirror.iceberg import columns

    put(columns, "misread", lambda *_: False)


CATALOGS: dict[str, Mutation] = {
    "a publisher reads the table before the catalog": Mutation(_table_before_catalog, 16_000),
    "a snapshot does not wait for deletes and columns": Mutation(_never_waits, 16_009),
    "a snapshot counts before the catalog has taken it": Mutation(_record_before_commit, 16_000),
    "metadata of any age is swept": Mutation(_metadata_of_any_age, 16_004),
    "metadata is swept that was the newest a grace ago": Mutation(_newest_alone, 16_010),
}

CATALOGS_RARE: dict[str, Callable[[], None]] = {
    "metadata goes by the grace of the settings": _grace_of_settings,
    "the record of a file that goes states its bounds": _bounds_stay,
    "an erase leaves the snapshots of before it": _old_snapshots_stay,
    "who stood still writes metadata all the same": _writes_whenever,
    "snapshots stay that would be read wrongly": _misread_stays,
}
"""See ``catalogue.RARE``."""
