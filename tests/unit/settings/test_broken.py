"""A mistake in the section of one table takes out that table, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from firnline.errors import SettingsError, UsageError
from firnline.settings.broken import BrokenTable
from firnline.settings.load import Settings, find_table, load_settings
from firnline.settings.sections import ALL_OPERATIONS

GOOD = "good: {root: 's3://b/good'}"


def read(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "tables.yaml"
    path.write_text(text)
    return load_settings(path)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{root: 's3://b/t', merge: {slotz: 2}}", "tables.t.merge.slotz: is not a setting"),
        ("{root: here}", "tables.t.root: "),
        ("{root: '${NOT_SET_ANYWHERE}/t'}", "NOT_SET_ANYWHERE is not set"),
        ("[]", "tables.t: must be a mapping"),
        ("{}", "tables.t.root: is missing"),
        ("{root: 's3://b/t', name: t}", "tables.t.name: is the key itself"),
    ],
)
def test_one_table_with_a_mistake_is_refused_and_the_others_are_there(
    tmp_path: Path, section: str, said: str
) -> None:
    settings = read(tmp_path, f"tables: {{t: {section}, {GOOD}}}")
    assert settings.table("good").root == "s3://b/good"
    assert list(settings.tables) == ["good"]
    with pytest.raises(SettingsError) as raised:
        settings.table("t")
    assert str(raised.value).startswith(f"{tmp_path / 'tables.yaml'}: tables.t")
    assert said in str(raised.value)
    with pytest.raises(SettingsError) as raised:
        load_settings(tmp_path / "tables.yaml", strict=True)
    assert said in str(raised.value)


def test_a_default_that_one_table_cannot_have_takes_out_that_table(tmp_path: Path) -> None:
    text = (
        "defaults: {ttl: {keep: 90d}}\n"
        "tables: {dated: {root: 's3://b/d', partition_by: [day(ts)]}, t: {root: 's3://b/t'}}"
    )
    settings = read(tmp_path, text)
    assert list(settings.tables) == ["dated"]
    assert "ttl finds no time in these partitions" in str(settings.broken["t"].error)


@pytest.mark.parametrize(
    "text",
    [
        "defaults: {merge: {slotz: 2}}",
        "fleet: {schedul: hourly}",
        "tabels: {}",
        "tables: []",
        "tables: {",
    ],
)
def test_a_mistake_in_what_all_tables_share_is_one_of_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError):
        read(tmp_path, f"{text}\n")


@pytest.mark.parametrize(
    ("first", "second", "of_first", "of_second"),
    [
        ("s3://b/x", "s3://b/x/y", "contains", "is inside"),
        ("s3://b/x", "s3://b/x", "is the same as", "is the same as"),
    ],
)
def test_tables_inside_each_other_are_both_refused(
    tmp_path: Path, first: str, second: str, of_first: str, of_second: str
) -> None:
    """The sweep of the outer one would delete the objects of the inner one."""
    one, two = f"one: {{root: '{first}'}}", f"two: {{root: '{second}'}}"
    settings = read(tmp_path, f"tables: {{{one}, {two}, {GOOD}}}")
    assert list(settings.tables) == ["good"]
    said = {name: str(broken.error) for name, broken in settings.broken.items()}
    assert f"tables.one.root: {of_first} the root of two" in said["one"]
    assert f"tables.two.root: {of_second} the root of one" in said["two"]


def test_a_root_inside_that_of_a_table_with_another_mistake_is_found_too(tmp_path: Path) -> None:
    one = "one: {root: 's3://b/x', merge: {slotz: 2}}"
    settings = read(tmp_path, f"tables: {{{one}, two: {{root: 's3://b/x/y'}}, {GOOD}}}")
    assert list(settings.tables) == ["good"]
    said = str(settings.broken["one"].error)
    assert ("slotz" in said, "contains the root of two" in said) == (True, True)


def test_a_table_with_a_mistake_is_not_opened_by_its_root_with_default_settings(
    tmp_path: Path,
) -> None:
    read(tmp_path, f"tables: {{t: {{root: 's3://b/t/', merge: {{slotz: 2}}}}, {GOOD}}}")
    with pytest.raises(SettingsError, match="slotz"):
        find_table("s3://b/t", tmp_path / "tables.yaml")
    assert find_table("s3://b/other", tmp_path / "tables.yaml").name == "other"
    with pytest.raises(UsageError, match="no table 'x'"):
        find_table("x", tmp_path / "tables.yaml")


@pytest.mark.parametrize(
    ("section", "operations"),
    [
        ("{operations: [merge, vacuum]}", ("merge",)),
        ("{operations: merge}", tuple(o for o in ALL_OPERATIONS if o != "ttl")),
        ("{operations: [], ttl: 3}", ALL_OPERATIONS),
        ("[]", tuple(o for o in ALL_OPERATIONS if o != "ttl")),
    ],
)
def test_its_dags_are_those_that_the_section_names_as_far_as_it_does(
    tmp_path: Path, section: str, operations: tuple[str, ...]
) -> None:
    assert read(tmp_path, f"tables: {{t: {section}}}").broken["t"].operations == operations


@pytest.mark.parametrize(
    ("section", "person"),
    [
        ("{person: [a, b]}", ("a", "b")),
        ("{person: []}", ()),
        ("{person: a}", None),
        ("{person: [[a]]}", None),
        ("{persons: [a]}", None),
        ("[]", None),
    ],
)
def test_whether_it_has_rows_of_people_is_known_where_its_section_says_it(
    tmp_path: Path, section: str, person: tuple[str, ...] | None
) -> None:
    assert read(tmp_path, f"tables: {{t: {section}}}").broken["t"].person == person


def test_of_two_sections_both_have_to_say_that_there_are_no_people() -> None:
    error = SettingsError("twice", next_step="keep one")
    one: dict[str, list[str]] = {"person": ["a"]}
    other: dict[str, list[str]] = {"person": []}
    silent: dict[str, list[str]] = {}
    assert BrokenTable("t", error, other, (one,)).person == ("a",)
    assert BrokenTable("t", error, other, (other,)).person == ()
    assert BrokenTable("t", error, other, (silent,)).person is None


def test_its_alerts_are_those_of_the_section_or_the_defaults_if_they_are_right(
    tmp_path: Path,
) -> None:
    told = "alerts: {notifier: some.where.Told}"
    tables = "t: {root: 1}, u: {root: 1, alerts: {notifyer: x}}"
    text = f"defaults: {{{told}}}\ntables: {{{tables}}}"
    broken = read(tmp_path, text).broken
    assert broken["t"].alerts.notifier == "some.where.Told"
    assert broken["u"].alerts.notifier is None
