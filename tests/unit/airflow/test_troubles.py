"""What of the planner's troubles is told, and when."""

from __future__ import annotations

from pathlib import Path

from firnline.airflow.troubles import Changes, Trouble, compare, troubles_of
from firnline.errors import SettingsError
from firnline.operations.fleet.need import Unreadable
from firnline.settings.files import UnreadFile
from firnline.units import DAY_MS

NOW = 100 * DAY_MS
DOWN, TORN = Trouble("table t", "StoreUnavailableError"), Trouble("table t", "LogCorruptError")


def test_a_trouble_is_told_once_and_again_after_a_day() -> None:
    first = compare({}, [DOWN], ["t"], NOW)
    assert first == Changes(("table t",), (), {DOWN.key: NOW})
    assert compare(first.known, [DOWN], ["t"], NOW + DAY_MS - 1) == Changes((), (), first.known)
    later = compare(first.known, [DOWN], ["t"], NOW + DAY_MS)
    assert (later.new, later.known) == (("table t",), {DOWN.key: NOW + DAY_MS})


def test_another_kind_of_trouble_with_the_same_table_is_told() -> None:
    known = compare({}, [DOWN], ["t"], NOW).known
    assert compare(known, [TORN], ["t"], NOW + 1) == Changes(("table t",), (), {TORN.key: NOW + 1})


def test_its_end_is_told_once_and_not_of_tables_that_were_not_looked_at() -> None:
    known = compare({}, [DOWN], ["t"], NOW).known
    assert compare(known, [], ["u"], NOW + 1) == Changes((), (), known)
    assert compare(known, [], ["t"], NOW + 1) == Changes((), ("table t",), {})
    assert compare({}, [], ["t"], NOW + 2) == Changes((), (), {})


def test_tables_mirrors_and_settings_are_troubles() -> None:
    errors = [SettingsError(f"{n}", next_step="correct it") for n in range(2)]
    unread = [UnreadFile(Path("tables.yaml"), error, 0) for error in errors]
    unreadable = [Unreadable("t", "no", "wait", "StoreUnavailableError")]
    found = [troubles_of(unreadable, ["m"], [each]) for each in unread]
    about = ["table t", "the mirror of m", "the settings in tables.yaml"]
    assert [each.subject for each in found[0]] == about
    assert found[0][:2] == found[1][:2]
    assert found[0][2] != found[1][2], "another mistake is another trouble"
    names = {key.rpartition(": ")[0] for key in compare({}, found[0], ["t", "m"], NOW).known}
    assert names == set(about)
    known = compare({}, found[0], ["t", "m"], NOW).known
    assert compare(known, [], [], NOW + 1).over == ("the settings in tables.yaml",)


def test_the_mirror_of_a_table_that_could_not_be_read_is_not_well_again() -> None:
    known = compare({}, [Trouble("the mirror of t", "not published")], ["t"], NOW).known
    found = compare(known, [DOWN], ["t"], NOW + 1)
    assert (found.new, found.over) == (("table t",), ())
    assert compare(found.known, [], ["t"], NOW + 2).over == ("table t", "the mirror of t")
