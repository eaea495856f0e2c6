from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from firnline.errors import UsageError
from firnline.operations.common_options import Mode
from firnline.operations.fields import (
    Option,
    OptionField,
    checked,
    option_fields,
    parse_moment,
)
from firnline.operations.operation import AnyDag
from firnline.operations.options import (
    CleanupOptions,
    DiscardOptions,
    DropOptions,
    EraseOptions,
    Evolution,
    LazyOptions,
    MergeOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SweepOptions,
    TtlOptions,
)
from firnline.operations.registry import DAGS, OPERATIONS


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


@pytest.mark.parametrize("empty", ["", " ", [""], ["a", " "]])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.command)
def test_an_empty_text_is_no_value_of_any_option(operation: AnyDag, empty: Any) -> None:
    """It comes of a variable that is not set, and the default of a bound is everything."""
    options: type[msgspec.Struct] = operation.options
    for found in option_fields(options):
        with pytest.raises(UsageError, match=r"is empty|is neither true nor false|is not a list"):
            found.value(empty)


def test_a_refusal_has_the_name_of_the_field_and_the_flag_that_is_another() -> None:
    refusals: list[tuple[type[msgspec.Struct], str, str]] = [
        (RewriteOptions, "start_ms", "start_ms (--from) is empty; write a value, or leave it out"),
        (SweepOptions, "older_than", "leave it out for `orphan_grace` of the table's settings"),
        (ReplaceOptions, "start", "start is empty; write a value"),
    ]
    for kind, name, said in refusals:
        with pytest.raises(UsageError) as refused:
            field(kind, name).value("")
        assert str(refused.value).endswith(said)


def test_a_bound_is_written_as_one_writes_the_value() -> None:
    with pytest.raises(UsageError, match="keep is 0s, and the least is 1s; write a larger value,"):
        field(RewriteOptions, "keep").value("0s")
    with pytest.raises(UsageError, match="keep is 3651d, and the most is 3650d; write a smaller"):
        field(RewriteOptions, "keep").value("3651d")
    with pytest.raises(UsageError, match=r"to is -1, and the least is 0; write a larger value$"):
        field(RestoreOptions, "to").value(-1)


class Frame:
    """As a column or an array of other libraries: it has no truth, and compares to itself."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of an array is ambiguous")

    __hash__ = None  # type: ignore[assignment] # as of an array

    def tolist(self) -> list[Any]:
        return self.values


@pytest.mark.parametrize(
    "given",
    [np.array(["a"]), pa.array(["a"]), pa.chunked_array([["a"]]), [np.str_("a")], Frame(["a"])],
    ids=lambda given: type(given).__name__,
)
def test_values_of_other_libraries_become_plain_ones(given: Any) -> None:
    kinds: tuple[Any, ...] = (MergeOptions, DropOptions, TtlOptions)
    for kind in kinds:
        (made,) = checked(kind(partitions=given), kind).partitions
        assert (made, type(made)) == ("a", str)
    erase = checked(EraseOptions(columns=given, keys=given), EraseOptions)
    assert (erase.columns, erase.keys) == (("a",), (("a",),))
    assert {type(erase.columns[0]), type(erase.keys[0][0])} == {str}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ([np.int64(1), np.float64(1.5), np.bool_(True)], ((1,), (1.5,), (True,))),
        (np.array([[1, 2]]), ((1, 2),)),
        ([np.array([1, 2])], ((1, 2),)),
        (pa.array([date(2026, 1, 1)]), ((date(2026, 1, 1),),)),
        (np.array(["2026-01-01"], "datetime64[D]"), ((date(2026, 1, 1),),)),
        (np.array(["2026-01-01"], "datetime64[ns]"), ((datetime(2026, 1, 1),),)),  # noqa: DTZ001
        (iter([1]), ((1,),)),
    ],
)
def test_keys_of_other_libraries_are_plain_ones(given: Any, keys: Any) -> None:
    made = EraseOptions(columns=("a",), keys=given).keys
    assert made == keys
    assert [type(each) for each in made[0]] == [type(each) for each in keys[0]]


def test_a_time_finer_than_a_microsecond_is_not_made_another_one() -> None:
    fine: Any = np.datetime64("2026-01-01T00:00:00.000000001")
    made: Any = EraseOptions(columns=("a",), keys=(fine,)).keys
    assert made == ((fine,),)


def test_a_frame_is_no_list_of_keys() -> None:
    """Its iterator gives the names of its columns."""
    with pytest.raises(UsageError, match="are no list, but of type DataFrame"):
        EraseOptions(columns=("a",), keys=pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize(
    "partitions", [{"x": 1}, (each for each in "ab"), [5], [b"x"], [None], None, "ab", b"ab", 5]
)
@pytest.mark.parametrize("kind", [DropOptions, MergeOptions])
def test_what_is_no_list_of_texts_is_refused_with_and_without_words(
    kind: Any, partitions: object
) -> None:
    with pytest.raises(UsageError, match="partitions is"):
        checked(kind(partitions=partitions), kind)


def test_a_field_without_words_is_checked_too() -> None:
    for options in (
        DropOptions(partitions=("a",), expected=None),  # type: ignore[arg-type] # on purpose
        RewriteOptions(where="a", first_try="x"),  # type: ignore[arg-type] # on purpose
        DiscardOptions(id="a", why=5),  # type: ignore[arg-type] # on purpose
        LazyOptions(evolution=Evolution(drop="x")),  # type: ignore[arg-type] # on purpose
    ):
        with pytest.raises(UsageError, match=r"is not of its type|is not a list of texts"):
            checked(options, type(options))


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


def test_a_value_that_was_given_says_something() -> None:
    optional, bound = field(MergeOptions, "partitions"), field(MergeOptions, "max_bytes")
    for nothing in (None, "", " "):
        with pytest.raises(UsageError, match=r"write a value, or leave it out for all partitions$"):
            optional.refuse_nothing(nothing)
    with pytest.raises(UsageError, match=r"^to is None; write a value$"):
        field(RestoreOptions, "to").refuse_nothing(None)
    bound.refuse_nothing(None)  # what it has without a value
    optional.refuse_nothing([])
