from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from airflow.sdk import Param
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from firnline.airflow.once import again_param
from firnline.airflow.params import form_params, form_values
from firnline.airflow.versions import ParamValidationError
from firnline.errors import UsageError
from firnline.operations.common_options import Mode
from firnline.operations.fields import Option
from firnline.units import DURATION_UNITS, SIZE_UNITS, format_size


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every kind."""

    where: Annotated[str, Option("Where", "Rows.")]
    columns: Annotated[tuple[str, ...], Option("Columns", "Names.")]
    globs: Annotated[tuple[str, ...], Option("Globs", "These.", absent="all", metavar="GLOB")] = ()
    size: Annotated[int | None, Option("Size", "Bytes.", unit="size", least=1)] = None
    age: Annotated[int | None, Option("Age", "At least.", unit="duration")] = None
    count: Annotated[int | None, Option("Count", "At most.", least=1, most=10**9)] = None
    deep: Annotated[bool, Option("Deep", "Everything.")] = False
    mode: Annotated[Mode | None, Option("Mode", "When.", absent="`deletes`")] = None
    equal: Annotated[dict[str, str | int], Option("Equal", "Values.")] = {}
    start: Annotated[str | int | float | None, Option("Start", "From.")] = None
    since: Annotated[str | int | None, Option("Since", "From.", moment=True)] = None
    hidden: Annotated[int | None, Option("Hidden", "Not here.", form=False)] = None
    internal: int = 0


STANDARD = "https://json-schema.org/draft/2020-12/schema"
PARAMS = form_params(Asked)
GIVEN = {"where": "a = 1", "columns": ["a"]}


def accepted(param: Param, value: object) -> bool:
    try:
        param.resolve(value)
    except ParamValidationError:
        return False
    return True


def test_a_form_asks_for_what_people_can_set_and_no_more() -> None:
    assert list(PARAMS) == [
        *("where", "columns", "globs", "size", "age", "count", "deep", "mode", "equal", "start"),
        "since",
    ]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("where", ["a = 1"], [None, "", 1]),
        ("columns", [["a"]], [None, [], [""], "a"]),
        ("globs", [None, [], ["day=*"]], ["day=*", [""], [1]]),
        (
            "size",
            [None, "1.5 GiB", "12", 10],
            ["ten", -1, 1.5, True, "-1GiB", "10 apples", "GiB", "1,5GiB", "1GiB x"],
        ),
        ("age", [None, "7d", "1.5 h"], ["7", "d", "7 years"]),
        ("count", [None, 1, 10**9], [0, -1, 1.5, "7", 10**9 + 1]),
        ("deep", [True, False], [None, "yes", 1]),
        ("mode", [None, "eager", "lazy"], ["gentle", ""]),
        ("equal", [None, {}, {"c": 1, "d": "x", "e": True}], ["c=1", {"c": [1]}]),
        ("start", [None, 7, 1.5, "2024"], ["", [1]]),
        ("since", [None, 7, "2024-03-05", "2024-03-05T07:00:00.000Z"], ["", [1]]),
    ],
)
def test_a_value_of_another_form_is_refused_before_there_is_a_run(
    name: str, good: list[object], bad: list[object]
) -> None:
    assert [value for value in good if not accepted(PARAMS[name], value)] == []
    assert [value for value in bad if accepted(PARAMS[name], value)] == []


def test_what_is_required_has_no_default_that_passes() -> None:
    for name in GIVEN:
        param = form_params(Asked)[name]
        assert not accepted(param, param.value)


def test_every_default_passes_and_stands_for_the_default_of_the_options() -> None:
    params = form_params(Asked).items()
    defaults = {name: param.resolve() for name, param in params if name not in GIVEN}
    assert Asked(**form_values(Asked, {**defaults, **GIVEN})) == Asked(
        where="a = 1", columns=("a",)
    )


def test_airflow_s_form_marks_as_required_what_is_and_nothing_else() -> None:
    """It marks a field whose type does not allow null."""
    marked = {name for name, param in PARAMS.items() if "null" not in param.schema["type"]}
    assert marked == set(GIVEN)


def test_no_field_is_json_in_a_text_area() -> None:
    """Airflow's form takes a type of several kinds for that, unless there are examples."""
    for param in [*PARAMS.values(), again_param()]:
        kinds = [kind for kind in param.schema["type"] if kind != "null"]
        single = isinstance(param.schema["type"], str) or len(kinds) == 1
        assert single or "enum" in param.schema or "examples" in param.schema


def test_a_time_has_a_date_picker() -> None:
    assert [name for name, each in PARAMS.items() if each.schema.get("format")] == ["since"]
    assert PARAMS["since"].schema["type"][0] == "string"


def test_every_schema_is_one_of_json_schema() -> None:
    for param in PARAMS.values():
        Draft202012Validator.check_schema({**param.schema, "$schema": STANDARD})


def test_a_description_says_what_applies_without_a_value() -> None:
    described = {name: param.description for name, param in PARAMS.items()}
    shown = {
        name: param.serialize()["schema"].get("description_md") for name, param in PARAMS.items()
    }
    assert described["globs"] is None
    assert shown["globs"] == "These. One a line. Empty: all."
    assert shown["mode"] == "When. Empty: `deletes`."
    assert shown["deep"] == "Everything."


def test_values_come_in_the_units_of_the_options() -> None:
    assert form_values(Asked, {**GIVEN, "size": 10})["size"] == 10
    values = form_values(Asked, {**GIVEN, "size": "1.5GiB", "age": "1h", "globs": ["day=a"]})
    assert (values["size"], values["age"]) == (3 * 2**29, 3_600_000)
    assert values["globs"] == ("day=a",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "1.5B"}, r"'1\.5B' is not a whole byte count"),
        ({"size": "0B"}, "size is 0B, and the least is 1B"),
        ({"count": 10**9 + 1}, "count is 1000000001, and the most is 1000000000"),
        ({"globs": "day=a"}, "globs is not a list of globs"),
        ({"globs": [1]}, "globs is not a list of globs"),
    ],
)
def test_a_value_that_is_wrong_is_refused_by_its_name(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        form_values(Asked, {**GIVEN, **given})


@given(st.integers(min_value=1, max_value=2**62))
def test_every_size_that_is_written_passes_airflow_s_check(size: int) -> None:
    assert accepted(PARAMS["size"], format_size(size))


@pytest.mark.parametrize("unit", ["", *SIZE_UNITS, *(unit.lower() for unit in SIZE_UNITS)])
def test_every_unit_of_sizes_passes_airflow_s_check(unit: str) -> None:
    assert accepted(PARAMS["size"], f" 12 {unit}")


@pytest.mark.parametrize("unit", [unit for unit in DURATION_UNITS if unit != "ms"])
def test_every_unit_of_ages_passes_airflow_s_check(unit: str) -> None:
    assert accepted(PARAMS["age"], f" 12 {unit}")
