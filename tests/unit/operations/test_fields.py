from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from firnline.errors import UsageError
from firnline.operations.common_options import Mode
from firnline.operations.fields import Option, OptionField, option_fields, parse_moment
from firnline.operations.operation import AnyDag
from firnline.operations.options import CleanupOptions, ReplaceOptions, RewriteOptions, SweepOptions
from firnline.operations.registry import DAGS


def field(options: type[msgspec.Struct], name: str) -> OptionField:
    return next(found for found in option_fields(options) if found.name == name)


def test_a_field_without_words_is_set_by_code_only() -> None:
    names = [found.name for found in option_fields(RewriteOptions)]
    assert "first_try" not in names
    assert names[:3] == ["where", "sql", "partitions"]


def test_every_option_of_every_operation_has_words() -> None:
    for operation in DAGS:
        options: type[msgspec.Struct] = operation.options
        for found in option_fields(options):
            assert found.option.title[0].isupper()
            assert found.option.text.endswith(".")
            assert not found.option.absent.endswith(".")
            if found.kind in {"number", "text", "texts", "scalar", "pairs"}:
                assert found.option.metavar, (operation.name, found.name)


def test_a_type_that_no_form_can_show_is_refused() -> None:
    class Odd(msgspec.Struct):
        odd: Annotated[set[int], Option("Odd", "Odd.")]

    with pytest.raises(TypeError, match="an option cannot be of type"):
        option_fields(Odd)


def test_equalities_are_columns_and_texts() -> None:
    equal = field(ReplaceOptions, "equal")
    assert equal.value(["client=1234", "note=a=b", "empty="]) == {
        "client": "1234",
        "note": "a=b",
        "empty": "",
    }
    assert equal.value({"client": 1234}) == {"client": 1234}
    assert equal.value(None) == {}
    with pytest.raises(UsageError, match="--where-equal names the column 'a' twice"):
        equal.value(["a=1", "a=2"])
    with pytest.raises(UsageError, match="--where-equal 'a' is not COLUMN=VALUE"):
        equal.value(["a"])


def test_nothing_given_is_none_only_where_none_means_something() -> None:
    approved, files = field(SweepOptions, "approved"), field(ReplaceOptions, "files")
    assert [approved.value(given) for given in (None, [], ["k"])] == [None, None, ("k",)]
    assert [files.value(given) for given in (None, [], ["k"])] == [(), (), ("k",)]


@pytest.mark.parametrize("operation", DAGS, ids=lambda operation: operation.name)
def test_what_was_not_given_is_the_default_of_the_field(operation: AnyDag) -> None:
    options: type[msgspec.Struct] = operation.options
    required: dict[str, Any] = {
        one.name: "x" for one in msgspec.structs.fields(options) if one.required
    }
    given = {one.name: one.value(None) for one in option_fields(options) if not one.required}
    assert options(**required | given) == options(**required)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01Z", 1_000),
        (" 1970-01-01T01:00:00+01:00 ", 0),
    ],
)
def test_a_time_is_read_in_utc_unless_it_has_a_zone(text: str, expected: int) -> None:
    assert parse_moment(text) == field(RewriteOptions, "start_ms").value(text) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "2013-13-01"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        parse_moment(text)


def test_the_mode_is_a_choice_of_two() -> None:
    found = field(ReplaceOptions, "mode")
    kinds: tuple[Any, ...] = ("eager", "lazy")
    assert (found.kind, found.choices) == ("choice", kinds)
    values: list[Mode | None] = [None, "lazy"]
    assert [found.value(value) for value in values] == values


def test_a_whole_number_of_json_is_one_however_it_is_written() -> None:
    field = next(each for each in option_fields(CleanupOptions) if each.name == "max_deletes")
    assert (field.value(5.0), type(field.value(5.0))) == (5, int)


@pytest.mark.parametrize("given", ["9" * 400, "9" * 400 + "GiB", "[" * 5_000])
def test_a_long_value_is_not_repeated_whole_in_a_sentence(given: str) -> None:
    """It is the note of a run, which has a limit."""
    with pytest.raises(UsageError) as refused:
        field(SweepOptions, "older_than").value(given)
    assert given[:50] in str(refused.value)
    assert len(str(refused.value)) < 200
