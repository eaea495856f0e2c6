"""Params of DAGs, made from the options of operations.

Airflow checks the form of a value by the param, and firnline the value itself. Airflow's form marks
a field as required if its type does not allow null, and takes a type of several kinds for JSON in a
text area unless there are ``examples``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from firnline.airflow.dialect import DIALECT
from firnline.airflow.examples import examples_of
from firnline.operations.common_options import GLOB
from firnline.operations.fields import Example, OptionField, option_fields

if TYPE_CHECKING:
    import msgspec

    from firnline.settings.load import TableSettings

DRY_RUN = "dry_run"
"""Param by which a run only plans."""
_DURATION_PATTERN = r"^\s*[0-9]+(\.[0-9]+)?\s*(s|m|h|d|w)\s*$"
_SCALAR = ["string", "number"]
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    # The type allows null so that the field is not marked as required; the choices do not.
    "flag": {"type": ["boolean", "null"], "enum": [True, False], "form": "true or false"},
    "number": {"type": ["integer", "null"], "form": "a whole number"},
    "text": {"type": ["string", "null"], "minLength": 1, "form": "text"},
    "scalar": {
        "type": [*_SCALAR, "null"],
        "minLength": 1,
        "examples": [],
        "form": "text or a number",
    },
    "texts": {
        "type": ["array", "null"],
        "items": {"type": "string", "minLength": 1},
        "form": 'a list of texts such as ["first"]',
    },
    "pairs": {
        "type": ["object", "null"],
        "additionalProperties": {"type": [*_SCALAR, "boolean"]},
        "form": 'a mapping of names to values such as {"client": 1234}',
    },
    "choice": {"type": ["string", "null"]},
}
_UNITS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "size": {
        "type": ["string", "integer", "null"],  # a plain number is one of bytes
        "minimum": 0,
        "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([KkMmGgTt]?[Ii]?[Bb])?\s*$",
        "examples": [],  # else the form takes a type of several kinds for JSON
        "form": "a size such as 10GiB",
    },
    "duration": {
        "type": ["string", "null"],
        "pattern": _DURATION_PATTERN,
        "form": "a duration such as 90m or 7d",
    },
}


def asked_param(default: object, title: str, text: str, **schema: Any) -> Param:
    """Return a param of ``firnline.airflow.dialect``.

    Args:
        default: its value where none is given.
        title: label in the form.
        text: description, Markdown.
        schema: keywords of JSON Schema; ``form``, a noun phrase, says which values it allows.
    """
    return Param(
        default,
        schema={"$schema": DIALECT, **schema, "title": title, "description_md": text},
    )


def flag_param(default: bool, title: str, text: str) -> Param:
    """Return a param that is on or off."""
    return asked_param(default, title, text, **_SCHEMAS["flag"])


def duration_param(default: str, title: str, text: str) -> Param:
    """Return a param of a duration as text."""
    return asked_param(default, title, text, **_UNITS["duration"])


def form_params(
    options: type[msgspec.Struct], known: TableSettings | None = None
) -> dict[str, Param]:
    """Return a param for each field of the options that forms ask for.

    Args:
        options: of the operation.
        known: the table, if the form is of one table: examples are of its columns and partitions.
    """
    examples = {} if known is None else examples_of(known)
    return {
        field.name: field_param(field, examples)
        for field in option_fields(options)
        if field.option.form
    }


def field_param(field: OptionField, examples: Mapping[Example, str]) -> Param:
    """Return the param of a field. One that is required has no default that passes its check."""
    option = field.option
    schema = {**_SCHEMAS[field.kind], **_UNITS[option.unit]}
    if option.metavar == "GLOB":
        schema["form"] = f'a list of globs such as ["{examples.get("glob", GLOB)}"]'
    if option.moment:
        schema |= {"format": "date-time", "form": "a time such as 2024-03-05T07:00, or a number"}
    if field.required:
        kinds = [kind for kind in schema["type"] if kind != "null"]
        schema["type"] = kinds if len(kinds) > 1 else kinds[0]
        schema |= {"minItems": 1} if field.kind == "texts" else {}
    if field.choices:
        schema["enum"] = [*([] if field.required else [None]), *field.choices]
        schema["values_display"] = {"null": "not given"}
    return asked_param(
        field.default if field.kind == "flag" else None,
        option.title,
        _description(field, examples),
        **{**schema, **_bounds(field, schema)},
    )


def _bounds(field: OptionField, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords for the bounds of a number without a unit, and its form with them."""
    least, most = field.option.least, field.option.most
    if field.option.unit or (least is None and most is None):
        return {}
    found = {"minimum": least, "maximum": most}
    words = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
    form = f"{schema['form']}, {' and '.join(words)}"
    return {**{name: each for name, each in found.items() if each is not None}, "form": form}


def _description(field: OptionField, examples: Mapping[Example, str]) -> str:
    option = field.option
    one_a_line = "One a line." if field.kind == "texts" else ""
    absent = option.in_form or (f"Empty: {option.absent}." if option.absent else "")
    return " ".join(text for text in (option.text_for(examples), one_a_line, absent) if text)


def form_values(options: type[msgspec.Struct], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the fields that a form asks for.

    Raises:
        UsageError: a value is not of the field's form, or is out of its bounds.
    """
    fields = [field for field in option_fields(options) if field.option.form]
    return {field.name: field.value(params.get(field.name)) for field in fields}
