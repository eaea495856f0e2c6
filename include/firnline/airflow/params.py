"""Params of DAGs, made from the options of operations.

Airflow checks the form of a value by the param, and firnline the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.operations.fields import OptionField, option_fields

if TYPE_CHECKING:
    import msgspec

DURATION_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*(s|m|h|d|w)\s*$"
_SCALAR = ["string", "number"]
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "flag": {"type": "boolean"},
    "number": {"type": ["integer", "null"]},
    "text": {"type": ["string", "null"], "minLength": 1},
    "scalar": {"type": [*_SCALAR, "null"], "minLength": 1},
    "texts": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}},
    "pairs": {"type": ["object", "null"], "additionalProperties": {"type": [*_SCALAR, "boolean"]}},
    "choice": {"type": ["string", "null"]},
}
_UNITS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "size": {
        "type": ["string", "null"],
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$",
    },
    "duration": {"type": ["string", "null"], "pattern": DURATION_PATTERN},
}


def form_params(options: type[msgspec.Struct]) -> dict[str, Param]:
    """Return a param for each field of the options that forms ask for."""
    return {field.name: field_param(field) for field in option_fields(options) if field.option.form}


def field_param(field: OptionField) -> Param:
    """Return the param of a field. One that is required has no default that passes its check."""
    option = field.option
    schema = {**_SCHEMAS[field.kind], **_UNITS[option.unit]}
    if field.required:
        kinds = [kind for kind in schema["type"] if kind != "null"]
        schema["type"] = kinds if len(kinds) > 1 else kinds[0]
        schema |= {"minItems": 1} if field.kind == "texts" else {}
    if field.choices:
        schema["enum"] = [*([] if field.required else [None]), *field.choices]
    if option.least is not None and not option.unit:
        schema["minimum"] = option.least
    if option.most is not None and not option.unit:
        schema["maximum"] = option.most
    return Param(
        False if field.kind == "flag" else None,
        title=option.title,
        description_md=_description(field),
        **schema,
    )


def _description(field: OptionField) -> str:
    option = field.option
    one_a_line = "One a line." if field.kind == "texts" else ""
    absent = option.in_form or (f"Empty: {option.absent}." if option.absent else "")
    return " ".join(text for text in (option.text, one_a_line, absent) if text)


def form_values(options: type[msgspec.Struct], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that a form asks for.

    Raises:
        UsageError: a value is not of the field's form, or is out of its bounds.
    """
    fields = [field for field in option_fields(options) if field.option.form]
    return {field.name: field.value(params.get(field.name)) for field in fields}
