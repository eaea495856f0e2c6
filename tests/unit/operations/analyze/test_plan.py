"""Which footers an analyze reads, and what of them it takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firnline.errors import UsageError
from firnline.log.reader import LogObject, LogRead
from firnline.log.records import NO_STATS, LogContent, Marker, sort_json, stats_json
from firnline.operations.analyze.plan import AnalyzePlan, Lacking, plan_analyze
from firnline.parquet.footers import FooterFacts
from firnline.paths import TablePaths
from firnline.settings.load import TableSettings
from firnline.state.snapshot import build
from firnline.types.order import SortKey
from firnline.types.values import Stats

PATHS = TablePaths("t")
SCHEMA = {"id": "BIGINT", "name": "VARCHAR", "ratio": "DOUBLE", "key": "UUID", "blob": "BLOB"}
BOUNDS = (1, 2, 0)
SORTED = sort_json((SortKey("id"),))


def plan(
    *parts: tuple[str, Stats],
    partitions: tuple[str, ...] = (),
    stated: list[str] | None = None,
    order: msgspec.Raw = SORTED,
    **given: Any,
) -> AnalyzePlan:
    """The plan for live parts of (partition, statistics); ``stated`` are those of a file alone.

    All of them state ``order``.
    """
    markers = [
        Marker(
            p=PATHS.data_part(partition, f"018bcfe5-6800-7000-8000-{number:012x}"),
            b=100,
            t=1,
            s=stats_json(stats),
            k=order,
        )
        for number, (partition, stats) in enumerate(parts)
    ]
    key = PATHS.append_log(1, "w-018bcfe5-6800-7000-8000-00000000ffff")
    content = LogContent(t=1, schema=SCHEMA, markers=markers)
    read = LogRead({key: LogObject(PATHS.parse_log(key), 10, 1)}, {key: content})
    base = {"name": "t", "root": "memory://b/t"}
    settings = TableSettings.model_validate({**base, **given})
    own = None if stated is None else TableSettings.model_validate({**base, "statistics": stated})
    return plan_analyze(build(PATHS, read), settings, stated=own, partitions=partitions)


def test_a_part_that_lacks_bounds_of_a_column_of_the_settings_is_read() -> None:
    found = plan(
        ("d=1", {"id": BOUNDS}),
        ("d=1", {"id": BOUNDS, "name": ("a", "b", 0)}),
        ("d=2", {}),
        statistics=["name"],
        sort_by=["id"],
    )
    assert [(p.partition, dict(p.columns)) for p in found.lacking] == [
        ("d=1", {"name": "name"}),
        ("d=2", {"id": "id", "name": "name"}),
    ]
    data = found.to_json()
    assert data["lacking"] == {"id": 1, "name": 2}
    assert data["partitions"] == {"d=1": 1, "d=2": 1}
    assert (data["parts"], data["parts_complete"], data["requests"]) == (2, 1, 2)


def test_a_part_of_a_sorted_table_that_does_not_state_its_order_is_read() -> None:
    parts: list[tuple[str, Stats]] = [("d=1", {"id": BOUNDS}), ("d=2", {"id": BOUNDS})]
    found = plan(*parts, sort_by=["id"], order=msgspec.Raw(b'"by id, of a later version"'))
    assert [(p.columns, p.order, p.steps) for p in found.lacking] == [({}, True, 1)] * 2
    assert found.named == "statistics of id and sort orders"
    assert found.to_json()["parts_without_order"] == 2
    assert plan(*parts, sort_by=["id"]).nothing_to_do
    # Another order than today's is stated as well: the footer would say the same.
    assert plan(*parts, sort_by=["id desc"]).nothing_to_do
    assert plan(*parts, statistics=["id"], order=NO_STATS).nothing_to_do


def test_columns_of_which_no_footer_has_bounds_are_not_looked_for() -> None:
    found = plan(("d=1", {}), statistics=["ratio", "key", "blob", "unknown"])
    assert found.nothing_to_do
    assert found.columns == ()
    assert found.without == ("ratio", "key", "blob")
    assert found.complete == 1


def test_columns_that_only_the_settings_name_are_told_and_not_looked_for() -> None:
    found = plan(("d=1", {}), sort_by=["id"])
    assert found.not_kept == ()
    again = plan(("d=1", {}), sort_by=["id"], stated=["id", "name"])
    assert again.not_kept == ("name",)
    assert again.to_json()["columns_not_kept"] == ["name"]


def test_a_column_that_the_table_does_not_have_is_told_as_that() -> None:
    for found in (
        plan(("d=1", {}), statistics=["id", "nmae"]),
        plan(("d=1", {}), stated=["id", "nmae"], sort_by=["id"]),
    ):
        assert (found.unknown, found.not_kept) == (("nmae",), ())
        assert found.to_json()["columns_unknown"] == ["nmae"]


def test_globs_choose_partitions() -> None:
    parts: list[tuple[str, Stats]] = [("d=1", {}), ("d=2", {})]
    found = plan(*parts, partitions=("d=2",), statistics=["id"])
    assert [part.partition for part in found.lacking] == ["d=2"]
    assert found.complete == 0
    with pytest.raises(UsageError):
        plan(*parts, partitions=("e=*",), statistics=["id"])


def test_a_column_that_a_part_does_not_hold_is_null_in_all_of_its_rows() -> None:
    marker = Marker(p="t/_data/x.parquet", b=1, t=1)
    part = Lacking("", marker, {"id": "id", "new": "former", "name": "name", "odd": "Odd"})
    facts = FooterFacts(
        key=marker.p,
        bytes=1,
        rows=5,
        columns={"id": "BIGINT", "name": "VARCHAR", "oDD": "BIGINT"},
        stats={"id": BOUNDS},
    )
    assert part.stats_from(facts) == {"id": BOUNDS, "former": (None, None, 5)}
