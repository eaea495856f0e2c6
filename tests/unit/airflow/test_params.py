from __future__ import annotations

import pytest
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError
from hypothesis import given
from hypothesis import strategies as st

from firnline.airflow.params import count_param, flag_param, partition_globs, partitions_param, size_param, size_value
from firnline.errors import UsageError
from firnline.units import SIZE_UNITS, format_size

SIZE = size_param("Size", "How much.")


def accepted(param: Param, value: object) -> bool:
    try:
        param.resolve(value)
    except ParamValidationError:
        return False
    return True


@pytest.mark.parametrize("value", ["day=a", [1], {"day": "a"}])
def test_what_is_no_list_of_globs_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="partitions is not a list of globs"):
        partition_globs(value)


def test_globs_are_a_list_or_nothing() -> None:
    assert partition_globs(None) == partition_globs([]) == ()
    assert partition_globs(["day=a", "day=b*"]) == ("day=a", "day=b*")
    param = partitions_param()
    assert accepted(param, None)
    assert accepted(param, ["day=*"])
    assert not accepted(param, "day=*")
    assert not accepted(param, [""])


def test_a_size_is_read_or_refused() -> None:
    assert size_value(None) is size_value("") is None
    assert size_value("1.5GiB") == 3 * 2**29
    with pytest.raises(UsageError, match=r"'1\.5B' is not a whole byte count"):
        size_value("1.5B")


def test_a_count_is_a_whole_number_from_its_least_on() -> None:
    param = count_param("Deletes", "At most.")
    assert [value for value in (None, 1, 10**9) if not accepted(param, value)] == []
    assert [value for value in (0, -1, 1.5, "7") if accepted(param, value)] == []


def test_a_flag_is_yes_or_no() -> None:
    assert flag_param("Deep", "Everything.").value is False
    assert accepted(flag_param("Deep", "Everything.", default=True), False)
    assert not accepted(flag_param("Deep", "Everything."), "yes")


@given(st.integers(min_value=1, max_value=2**62))
def test_every_size_that_we_write_passes_airflow_s_check(size: int) -> None:
    assert accepted(SIZE, format_size(size))


@pytest.mark.parametrize("unit", ["", *SIZE_UNITS, *(unit.lower() for unit in SIZE_UNITS)])
def test_every_unit_that_we_read_passes_airflow_s_check(unit: str) -> None:
    assert accepted(SIZE, f" 12 {unit}")


@pytest.mark.parametrize("text", ["ten", "-1GiB", "10 apples", "GiB", "1,5GiB", "10GiB extra"])
def test_what_is_no_size_does_not(text: str) -> None:
    assert not accepted(SIZE, text)
