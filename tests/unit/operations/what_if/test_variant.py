"""Other settings for a play, by dotted names."""

from __future__ import annotations

import pytest

from firnline.errors import UsageError
from firnline.operations.what_if.variant import variant
from firnline.properties.in_force import from_settings, in_force
from firnline.settings.load import TableSettings

OWN = TableSettings.model_validate(
    {
        "name": "t",
        "root": "s3://b/t",
        "partition_by": ["day(ts)"],
        "merge": {"target_size": "64MiB", "min_inputs": 3},
    }
)
STATED = from_settings(OWN)


def test_what_is_not_named_stays() -> None:
    changed = variant(OWN, STATED, {"merge.target_size": "1GiB", "cleanup.grace": "2h"})
    assert (changed.merge.target_size, changed.merge.min_inputs) == (2**30, 3)
    assert changed.cleanup.grace == 7_200_000
    assert changed.partition_by == OWN.partition_by
    assert variant(OWN, STATED, {}) == in_force(OWN, STATED)


def test_values_are_those_of_a_settings_file() -> None:
    changed = variant(
        OWN,
        None,
        {
            "merge.min_inputs": "8",
            "merge.finish_after": "null",
            "merge.schedule": "*/15 * * * *",
            "sort_by": "[a, b desc]",
            "cluster_by.columns": ["c"],
        },
    )
    assert (changed.merge.min_inputs, changed.merge.finish_after) == (8, None)
    assert changed.merge.schedule == "*/15 * * * *"
    assert [str(each) for each in changed.sort_by] == ["a", "b desc"]
    assert changed.cluster_by is not None


def test_a_property_that_the_table_states_is_overridden_only_where_it_is_named() -> None:
    stated = from_settings(OWN.model_copy(update={"sort_by": ()}))
    given = OWN.model_validate({**OWN.model_dump(mode="json", exclude_unset=True)})
    changed = variant(given, stated, {"sort_by": "[a]"})
    assert [str(each) for each in changed.sort_by] == ["a"]
    assert changed.cleanup.grace == stated.grace


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("merge.taget_size", "1GiB", "merge.taget_size: is not a setting; did you mean target_si"),
        ("merge.target_size", "many", "'many' is not a size"),
        ("merge.min_inputs", "yes", "a number is wanted"),
        ("merge.min_inputs", "1", "greater than or equal to 2"),
        ("merge.max_parts_per_group", "2", "nothing would ever be merged"),
        ("merge", "3", "must be a mapping"),
        ("merge.schedule", "a: b: c", "is not a schedule"),
        ("partition_by", "[a]", "partition_by changes nothing of what a play counts"),
        ("name", "other", "name changes nothing of what a play counts"),
    ],
)
def test_what_is_no_setting_of_a_play_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        variant(OWN, STATED, {name: value})
    assert said in refused.value.message
