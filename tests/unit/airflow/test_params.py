from __future__ import annotations

import pytest
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError
from hypothesis import given
from hypothesis import strategies as st

from firnline.airflow.params import merge_options, merge_params
from firnline.errors import UsageError
from firnline.units import SIZE_UNITS, format_size


def test_the_defaults_merge_the_whole_table_within_its_settings() -> None:
    defaults = {name: param.value for name, param in merge_params().items()}
    options = merge_options(defaults, None)
    assert (options.partitions, options.max_bytes, options.dry_run) == ((), None, False)


def test_what_is_asked_for_reaches_the_operation() -> None:
    asked = {"partitions": ["day=a", "day=b*"], "max_bytes": "1.5GiB", "dry_run": True}
    options = merge_options(asked, asked)
    assert options.partitions == ("day=a", "day=b*")
    assert options.max_bytes == 3 * 2**29
    assert options.dry_run is True


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"max_bytes": "0B"}, "max_bytes is 0"),
        ({"max_bytes": "1.5B"}, "'1.5B' is not a whole byte count"),
        ({"partitions": "day=a"}, "partitions is no list of globs"),
        ({"partitions": [1]}, "partitions is no list of globs"),
    ],
)
def test_what_cannot_be_meant_is_refused(params: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        merge_options(params, {})


def test_a_mistyped_param_is_refused_instead_of_ignored() -> None:
    with pytest.raises(UsageError, match=r"no param dryrun, max; use partitions, max_bytes, dry"):
        merge_options({}, {"dryrun": True, "max": "1GiB"})


def accepted(name: str, value: object) -> bool:
    param: Param = merge_params()[name]
    try:
        param.resolve(value)
    except ParamValidationError:
        return False
    return True


@given(st.integers(min_value=1, max_value=2**62))
def test_every_size_that_we_write_passes_airflow_s_check(size: int) -> None:
    assert accepted("max_bytes", format_size(size))


@pytest.mark.parametrize("unit", ["", *SIZE_UNITS, *(unit.lower() for unit in SIZE_UNITS)])
def test_every_unit_that_we_read_passes_airflow_s_check(unit: str) -> None:
    assert accepted("max_bytes", f" 12 {unit}")


@pytest.mark.parametrize("text", ["ten", "-1GiB", "10 apples", "GiB", "1,5GiB", "10GiB extra"])
def test_what_is_no_size_does_not(text: str) -> None:
    assert not accepted("max_bytes", text)
