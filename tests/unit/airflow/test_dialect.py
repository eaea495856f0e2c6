from __future__ import annotations

import pytest
from airflow.sdk import Param

from firnline.airflow.params import asked_param, duration_param, flag_param
from firnline.airflow.versions import ParamValidationError


def said(param: Param, value: object) -> str:
    """Return how Airflow refuses the value."""
    with pytest.raises(ParamValidationError) as refused:
        param.resolve(value)
    return str(refused.value)


def choice(*names: str) -> Param:
    return asked_param(None, "Table", "One.", type="string", enum=list(names))


def test_a_refusal_is_one_sentence_with_the_value_and_its_form() -> None:
    age = duration_param("1h", "Age", "At least.")
    assert said(age, "soon") == '"soon" is not a duration such as 90m or 7d'
    assert said(flag_param(True, "On", "On."), None) == "a value is needed, true or false"
    assert said(flag_param(True, "On", "On."), "yes") == '"yes" is not true or false'
    assert said(choice("a", "b"), None) == "a value is needed, one of a, b"


def test_what_is_empty_is_told_so() -> None:
    text = asked_param(None, "Where", "Rows.", type="string", minLength=1, form="text")
    assert said(text, "") == "the value is empty: write text"
    texts = asked_param(None, "Columns", "Of keys.", type="array", minItems=1, form="a list")
    assert said(texts, []) == "the value is empty: write a list"


def test_of_many_choices_those_that_look_alike_are_named() -> None:
    many = choice("flights", *(f"t{number}" for number in range(1_000)))
    assert said(many, "flihgts") == '"flihgts" is not one of flights and 1000 more'
    assert said(many, "zzz").endswith("and 991 more")


def test_a_long_value_is_cut() -> None:
    assert len(said(choice("a"), "x" * 10_000)) < 200


def test_a_format_chooses_the_field_and_refuses_nothing() -> None:
    start = asked_param(None, "Start", "From.", type=["string", "number"], format="date-time")
    for value in ("2024-03-05", "2024-03-05T07:00:00.000Z", 7, 1.5):
        assert start.resolve(value) == value


def test_a_number_that_airflow_cannot_hand_on_is_refused_at_any_depth() -> None:
    keys = asked_param(None, "Keys", "Some.", type="array", form="a list of keys")
    assert keys.resolve([2**63 - 1]) == [2**63 - 1]
    for value in ([10**40], [["a", 2**63]]):
        assert "beyond 64 bits, which Airflow cannot hand on to tasks" in said(keys, value)
