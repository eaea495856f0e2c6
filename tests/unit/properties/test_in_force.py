"""Which properties are in force, and how long what began by older ones may go on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firnline.errors import PropertiesDifferError, SettingsError
from firnline.properties.in_force import (
    FIELDS,
    as_text,
    differences,
    disagree,
    from_settings,
    in_force,
    needed,
    stated,
    waits,
)
from firnline.properties.record import Properties, PropertiesRecord
from firnline.settings.load import TableSettings

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def settings(**given: Any) -> TableSettings:
    return TableSettings.model_validate({"name": "t", "root": "memory://bucket/t", **given})


def record(seq: int, t: int, seen: int | None = None, **given: Any) -> PropertiesRecord:
    return PropertiesRecord(seq, t, from_settings(settings(**given)), seen)


LAYOUTS: list[dict[str, Any]] = [
    {"partition_by": ["day(ts)", "bucket(16, user)"], "sort_by": ["user", "ts desc"]},
    {"partition_by": [{"column": "a(b"}], "sort_by": [{"column": "a desc", "descending": True}]},
    {"partition_by": ["{a}", '"b"'], "sort_by": ["{a", '"b" desc', '"']},
    {"partition_by": ['{"column":"b"}']},
    {"cluster_by": {"columns": ["a", "b"], "method": "zorder", "run_size": "9GiB"}},
    {"cluster_by": ["a"], "deletes": "lazy", "statistics": ["b"]},
    {"primary_key": ["id"], "version": "v", "deleted": "gone", "deleted_keep": "30d"},
    {"partition": r"d=(?P<day>.+)", "locking": "pool-only"},
    {"append": {"ttl": "2h"}, "commit_ttl": "3h", "cleanup": {"grace": "4h"}, "orphan_grace": "9d"},
]


@pytest.mark.parametrize("given", LAYOUTS)
def test_whoever_names_nothing_goes_by_all_that_the_table_says(given: dict[str, Any]) -> None:
    wanted = settings(**given)
    said = msgspec.json.decode(msgspec.json.encode(from_settings(wanted)), type=Properties)
    assert said == from_settings(wanted)
    found = in_force(settings(), said)
    assert from_settings(found) == said
    assert found.partition_by == wanted.partition_by
    assert found.sort_by == wanted.sort_by
    assert found.cluster_by == wanted.cluster_by
    assert found.append.ttl == wanted.append.ttl
    assert found.cleanup.grace == wanted.cleanup.grace


@pytest.mark.parametrize("stated", ["ts dsc", "ts dsc desc", '"{ts dsc"', '"\\"ts nulls last"'])
def test_a_table_that_is_sorted_by_a_column_like_a_misspelt_direction_stays_open(
    stated: str,
) -> None:
    table = msgspec.structs.replace(from_settings(settings()), sort_by=(stated,))
    found = in_force(settings(), table)
    assert from_settings(found).sort_by == table.sort_by, "the table goes on stating it so"
    again = TableSettings.model_validate(found.model_dump(mode="json"))
    assert again.sort_by == found.sort_by


def test_a_table_that_says_nothing_goes_by_the_settings() -> None:
    wanted = settings(sort_by=["v"])
    assert in_force(wanted, None) is wanted


@pytest.mark.parametrize("other", [{"primary_key": ["v"]}, {"primary_key": ["id"], "version": "v"}])
def test_settings_that_name_another_key_are_refused_unless_no_key_counts(
    other: dict[str, Any],
) -> None:
    table = from_settings(settings(primary_key=["id"]))
    with pytest.raises(PropertiesDifferError, match="which row of a key wins"):
        in_force(settings(**other), table)
    found = in_force(settings(**other), table, any_key=True)
    assert (found.primary_key, found.version) == (("id",), None)


def test_settings_that_do_not_go_with_what_the_table_says_are_refused() -> None:
    table = from_settings(settings(cluster_by={"columns": ["a"], "run_size": "9GiB"}))
    with pytest.raises(SettingsError, match=r"contradict the table.s properties: .*run_size"):
        in_force(settings(merge={"max_bytes_per_run": "8GiB"}), table)


def test_settings_state_what_they_name_and_nothing_else() -> None:
    assert stated(settings()) == {}
    assert stated(settings(append={"buffer": "64MiB"}, cleanup={"max_deletes_per_run": 9000})) == {}
    given = settings(append={"ttl": "2h"}, cleanup={"grace": "3h"}, sort_by=["a"])
    assert stated(given) == {"append.ttl": 2 * HOUR, "cleanup.grace": 3 * HOUR, "sort_by": ("a",)}
    assert set(stated(given)) < set(FIELDS)


@pytest.mark.parametrize(
    ("wanted", "differ"), [(["a"], False), (["a", "b"], False), (["c"], True), (["a", "c"], True)]
)
def test_a_table_may_keep_statistics_of_more_columns_than_settings_name(
    wanted: list[str], differ: bool
) -> None:
    table = from_settings(settings(statistics=["a", "b"]))
    names = [d.name for d in differences(settings(statistics=wanted), table)]
    assert names == (["statistics"] if differ else [])


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("append.ttl", 2 * HOUR, "2h"),
        ("deleted_keep", None, "-"),
        ("sort_by", (), "-"),
        ("sort_by", ("a", "b desc"), "a, b desc"),
        ("deletes", "lazy", "lazy"),
        ("cluster_by", {"columns": ("a",)}, "range(a)"),
        (
            "cluster_by",
            {"columns": ("a", "b"), "method": "zorder", "run_size": 9 * 2**30},
            "zorder(a, b), run_size 9GiB",
        ),
    ],
)
def test_a_value_is_told_as_the_settings_spell_it(name: str, value: object, text: str) -> None:
    assert as_text(name, value) == text


def test_only_appends_that_began_a_table_at_once_can_disagree() -> None:
    one, other = record(0, 1, sort_by=["a"]), record(0, 2, sort_by=["b"])
    assert disagree([one, other])
    assert not disagree([])
    assert not disagree([one])
    assert not disagree([one, msgspec.structs.replace(one, t=2)]), "they say the same"
    assert not disagree([one, other, record(1, 3)]), "a transaction has said it"


def test_the_record_in_force_is_needed_for_ever() -> None:
    only = record(3, 1)
    assert needed([only], 10_000 * DAY) == (only,)
    assert needed([], 0) == ()


@pytest.mark.parametrize(("seen", "until"), [(None, 10 * DAY), (12 * DAY, 12 * DAY)])
def test_an_older_record_is_needed_as_long_as_somebody_may_be_under_way_by_it(
    seen: int | None, until: int
) -> None:
    """From when the next one was visible: whoever began before goes on for all of its times."""
    long = record(0, 1, append={"ttl": "6h"}, commit_ttl="2h", cleanup={"grace": "1h"})
    short = record(4, 10 * DAY, seen, append={"ttl": "1h"}, cleanup={"grace": "1h"})
    newest = record(7, 50 * DAY, append={"ttl": "1h"}, cleanup={"grace": "1h"})
    last = until + 7 * HOUR
    assert needed([long, short], last) == (long, short)
    assert needed([long, short], last + 1) == (short,)
    assert long in needed([long, short, newest], last), "what came after the next does not count"
    assert long not in needed([long, short, newest], last + 1)


def test_a_commit_may_take_longer_than_an_append() -> None:
    long = record(0, 1, append={"ttl": "1h"}, commit_ttl="5h", cleanup={"grace": "1h"})
    newest = record(1, DAY)
    assert long in needed([long, newest], DAY + 6 * HOUR)
    assert long not in needed([long, newest], DAY + 6 * HOUR + 1)


def test_whoever_deletes_waits_the_longest_of_each_time() -> None:
    old = record(0, 1, append={"ttl": "6h"}, cleanup={"grace": "1h"}, orphan_grace="8d")
    given: dict[str, Any] = {
        "append": {"ttl": "1h"},
        "commit_ttl": "2h",
        "cleanup": {"grace": "3h"},
    }
    new = record(1, DAY, **given)
    found = waits([old, new], settings(**given), DAY)
    assert (found.append_ttl, found.grace, found.orphan_grace) == (6 * HOUR, 3 * HOUR, 8 * DAY)
    assert found.commit_ttl == max(old.values.commit_ttl, 2 * HOUR)
    assert found.late_append == 9 * HOUR
    later = waits([old, new], settings(**given), 10 * DAY)
    assert (later.append_ttl, later.grace) == (HOUR, 3 * HOUR)


@pytest.mark.parametrize("said", [{}, {"partition_by": ["d"], "locking": "pool-only"}])
def test_the_number_of_merges_at_once_keeps_nobody_out_of_a_table_that_says_otherwise(
    said: dict[str, Any],
) -> None:
    """It is refused in a settings file; here readers and appends would be refused, too."""
    wanted = settings(partition_by=["d"], merge={"slots": 2})
    found = in_force(wanted, from_settings(settings(**said)))
    assert found.merge.slots == 2
    assert [f.label for f in found.partition_by] == said.get("partition_by", [])
