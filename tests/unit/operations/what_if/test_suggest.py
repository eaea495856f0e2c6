"""The grid of a suggestion, its choice and what is written down of it."""

from __future__ import annotations

from typing import Any

import pytest

from firnline.operations.inspect.cost import Requests
from firnline.operations.inspect.prices import Prices
from firnline.operations.what_if.costs import Costs, Pricing, costs_of, scan_of_yesterday
from firnline.operations.what_if.ledger import Ledger
from firnline.operations.what_if.outcome import Outcome
from firnline.operations.what_if.scans import Means
from firnline.operations.what_if.suggest import Changes, Suggestion, Tried, grid, snippet, suggest
from firnline.operations.what_if.variant import variant
from firnline.settings.load import TableSettings
from firnline.units import DAY_MS


def settings(**merge: Any) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "s3://b/t", "merge": merge})


def outcome(parts: int = 1, means: Means | None = None, **requests: int) -> Outcome:
    ledger = Ledger(requests=Requests(**requests))
    return Outcome.of(ledger, means, parts=parts, size=0, arrived=0)


def test_the_grid_has_at_most_24_variants_which_are_all_settings() -> None:
    own = settings()
    variants = grid(own, 24)
    flat = [changes for schedules in variants for changes in schedules]
    assert len(flat) == 24
    assert {} in flat
    assert [each.get("merge.schedule") for each in variants[0]] == [
        "*/15 * * * *",
        None,
        "0 */6 * * *",
    ]
    for changes in flat:
        variant(own, None, changes)  # or it raises


@pytest.mark.parametrize(
    "merge",
    [
        {"target_size": "1MiB", "min_inputs": 2},
        {"target_size": "64GiB"},
        {"max_bytes_per_run": "512MiB"},
        {"min_inputs": 4, "max_parts_per_group": 4},
    ],
)
def test_the_grid_keeps_to_what_settings_allow(merge: dict[str, Any]) -> None:
    own = settings(**merge)
    for schedules in grid(own, 4):
        for changes in schedules:
            variant(own, None, changes)


def test_a_schedule_like_that_in_force_is_not_tried_beside_it() -> None:
    def crons(looks: float) -> list[str | None]:
        return [each.get("merge.schedule") for each in grid(settings(), looks)[0]]

    assert crons(96) == [None, "0 * * * *", "0 */6 * * *"]
    assert crons(4.2) == ["*/15 * * * *", "0 * * * *", None]
    assert crons(1) == ["*/15 * * * *", "0 * * * *", None]


def tried_by(table: dict[str, tuple[float, float]]) -> tuple[list[str], Suggestion]:
    """Suggest among variants of one setting: name -> (requests of a scan, dollars)."""
    played: list[str] = []

    def attempt(changes: Changes) -> Tried:
        name = changes["merge.order"]
        played.append(name)
        scan, usd = table[name]
        return Tried(changes, outcome(len(played)), Costs(usd, 0.0, scan))

    pairs = [[{"merge.order": name} for name in "ab"], [{"merge.order": name} for name in "cde"]]
    return played, suggest(pairs, attempt, 20)


def test_the_cheapest_that_keeps_to_the_limit_is_named_with_the_next() -> None:
    played, found = tried_by({"a": (9, 5), "b": (20, 3), "c": (5, 9), "d": (21, 1), "e": (40, 0.1)})
    assert played == ["a", "b", "c", "d"]  # e merges still more rarely than d
    assert (found.tried, found.pruned) == (4, 1)
    assert found.best is not None
    assert found.best.changes == {"merge.order": "b"}
    assert [each.changes["merge.order"] for each in found.following] == ["a", "c"]


def test_if_none_keeps_to_it_the_nearest_are_named() -> None:
    _, found = tried_by({"a": (90, 5), "b": (95, 3), "c": (50, 9), "d": (60, 1), "e": (70, 1)})
    assert found.best is None
    assert [each.changes["merge.order"] for each in found.following] == ["c", "a"]
    assert found.to_json()["best"] is None


def test_variants_of_one_outcome_are_one_that_with_the_fewest_changes() -> None:
    same = outcome()
    many: Changes = {"merge.order": "recent", "merge.min_inputs": "8"}
    found = suggest([[many], [{}]], lambda each: Tried(each, same, Costs(1.0, 1.0, 2.0)), 20)
    assert found.best is not None
    assert (found.best.changes, found.following) == ({}, ())


def test_the_snippet_is_a_settings_file() -> None:
    lines = snippet("t", {"merge.target_size": "1GiB", "merge.schedule": "0 */6 * * *"})
    assert lines == [
        "tables:",
        "  t:",
        "    merge:",
        '      schedule: "0 */6 * * *"',
        "      target_size: 1GiB",
    ]


def test_dollars_are_those_of_30_days() -> None:
    means = Means(parts=50, yesterday=6, logs=4)
    pricing = Pricing(Prices(put=5, get=1), scans_a_day=10, length_ms=15 * DAY_MS)
    costs = costs_of(outcome(means=means, put=100, list=100, get=1_000, delete=7), pricing)
    assert costs.maintenance == 2 * (5 * 0.2 + 1)
    assert costs.requests_of_scan == 2 + 4 + 6
    assert costs.scans == pytest.approx(300 * (5 * 0.002 + 0.01))
    assert costs.total == costs.maintenance + (costs.scans or 0)
    unknown = costs_of(outcome(), pricing)
    assert (unknown.scans, unknown.total) == (None, None)


def test_without_a_yesterday_a_scan_is_of_all_rows() -> None:
    assert scan_of_yesterday(Means(50, None, 4)) == Requests(list=2, get=54)
    assert scan_of_yesterday(Means(50, 6, 1_500)) == Requests(list=3, get=1_506)
