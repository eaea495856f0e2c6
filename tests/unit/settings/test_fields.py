from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from firnline.settings.fields import TIME_TRANSFORMS, PartitionField, SortField

columns = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("(), "), min_size=1, max_size=9
).filter(lambda name: name.strip() != "")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("carrier", "carrier"),
        ("identity(carrier)", "carrier"),
        ("year(ts)", "ts_year"),
        ("MONTH( ts )", "ts_month"),
        ("bucket(16, user id)", "user id_bucket"),
    ],
)
def test_a_partition_field_names_its_directory(text: str, label: str) -> None:
    assert PartitionField.model_validate(text).label == label


@given(columns, st.sampled_from(("identity", *TIME_TRANSFORMS)))
def test_a_field_reads_back_as_it_is_written(column: str, transform: str) -> None:
    field = PartitionField.model_validate({"transform": transform, "column": column})
    assert PartitionField.model_validate(field.model_dump()) == field


@given(columns, st.integers(2, 65_536))
def test_a_bucket_field_reads_back_as_it_is_written(column: str, buckets: int) -> None:
    field = PartitionField.model_validate(
        {"transform": "bucket", "column": column, "buckets": buckets}
    )
    assert PartitionField.model_validate(field.model_dump()) == field


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "month(ts",
        "month()",
        "month(a)(b)",
        "week(ts)",
        "bucket(user)",
        "bucket(x, user)",
        "bucket(1, user)",
        "bucket(-4, user)",
        "bucket(70000, user)",
        "month(3, ts)",
        "a\nb",
    ],
)
def test_what_is_no_partition_field_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        PartitionField.model_validate(text)


@pytest.mark.parametrize("text", ["bucket(64", "id)"])
def test_halves_of_a_bucket_field_that_yaml_has_split_are_told_to_need_quotes(text: str) -> None:
    said = (
        r'half of a partition field: YAML splits .* write "bucket\(16, column\)" with these quotes'
    )
    with pytest.raises(ValidationError, match=said):
        PartitionField.model_validate(text)


@pytest.mark.parametrize(
    ("text", "column", "descending"),
    [
        ("ts", "ts", False),
        ("ts desc", "ts", True),
        ("a b  ASC", "a b", False),
        ("desc", "desc", False),
    ],
)
def test_a_sort_field_may_say_its_direction(text: str, column: str, descending: bool) -> None:
    assert SortField.model_validate(text) == SortField(column=column, descending=descending)


@given(columns, st.booleans())
def test_a_sort_field_reads_back_as_it_is_written(column: str, descending: bool) -> None:
    field = SortField(column=column, descending=descending)
    assert SortField.model_validate(field.model_dump()) == field


def test_a_column_that_ends_like_a_direction_can_still_be_sorted_by() -> None:
    field = SortField.model_validate({"column": "price desc"})
    assert SortField.model_validate(field.model_dump()).column == "price desc"


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("ts dsc", "dsc"),
        ("ts DECS", "DECS"),
        ("ts  des", "des"),
        ("order no ascending", "ascending"),
        ("ts descending", "descending"),
        ("ts desc nulls last", "desc nulls last"),
        ("ts NULLS FIRST", "NULLS FIRST"),
    ],
)
def test_a_direction_that_is_misspelt_is_not_taken_for_a_part_of_the_name(
    text: str, word: str
) -> None:
    column = text.removesuffix(word).strip()
    said = (
        f"{text!r} ends with {word!r}, and a direction is asc or desc, with nulls last: write "
        f"'{column} desc' or '{column} asc'; a column of this very name is '{text} asc'"
    )
    with pytest.raises(ValidationError, match=re.escape(said)):
        SortField.model_validate(text)


@pytest.mark.parametrize("name", ["order no", "price des jours", "dsc", "ts_dsc", "Jan Dec"])
def test_a_column_with_spaces_can_be_sorted_by(name: str) -> None:
    assert SortField.model_validate(name) == SortField(column=name)


@pytest.mark.parametrize("descending", [True, False])
def test_a_column_that_ends_like_a_misspelt_direction_can_still_be_sorted_by(
    descending: bool,
) -> None:
    field = SortField.model_validate(f"ts dsc {'desc' if descending else 'asc'}")
    assert field == SortField(column="ts dsc", descending=descending)
    assert SortField.model_validate(field.model_dump()) == field
