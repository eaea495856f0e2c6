"""Check the arguments of our operators, and read those that were templates.

An argument in Python was given or was not. One that was, and says nothing, comes of a variable or a
template that had nothing to say, and what the option has without a value is often everything: all
partitions, a run that acts. It is refused, when the DAG is made and again when it was rendered.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from firnline.airflow.approvals import ANSWER_WITHIN, WAIT
from firnline.airflow.once import AGAIN
from firnline.airflow.params import DRY_RUN
from firnline.errors import UsageError, quoted
from firnline.operations.dag_ids import TABLE
from firnline.operations.fields import Option, OptionField, option_fields

if TYPE_CHECKING:
    import msgspec

Options = Mapping[str, Any]
"""Arguments of an operator, with the table, as they are or were rendered."""
Fields = Mapping[str, OptionField]
_NONE = ("None", "null")
"""Texts that a template makes of None."""
_SWITCHES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_OWN = (
    OptionField(TABLE, Option("Table", ""), "text", required=True, default=None),
    OptionField(DRY_RUN, Option("Dry run", ""), "flag", required=False, default=False),
    OptionField(AGAIN, Option("Again", ""), "flag", required=False, default=False),
    OptionField(ANSWER_WITHIN, Option("Answer within", ""), "text", required=False, default=WAIT),
)
"""Arguments that are no options of an operation."""


@functools.cache
def fields_of(options: type[msgspec.Struct], needed: frozenset[str] = frozenset()) -> Fields:
    """Return the fields of an operator, by the name of the argument.

    Args:
        options: of its operation.
        needed: those that the operator asks for, though the operation does not.
    """
    return {
        field.name: replace(
            field,
            option=replace(field.option, flag=""),  # messages name the argument alone
            required=field.required or field.name in needed,
        )
        for field in (*_OWN, *option_fields(options))
    }


class WithOptions:
    """An operator whose arguments are the options of its work."""

    kind: ClassVar[Any]
    """Its work (``airflow.work``)."""
    needed: ClassVar[frozenset[str]] = frozenset()
    """Options that it asks for, though the operation does not."""

    @classmethod
    def fields(cls) -> Fields:
        """Return the fields of its arguments."""
        return fields_of(cls.kind.about.options, cls.needed)


def refuse_nothing(fields: Fields, given: Options) -> None:
    """Raise UsageError for an argument that says nothing; templates are looked at in the run."""
    for name, value in given.items():
        if name in fields:
            fields[name].refuse_nothing(value)


def rendered(fields: Fields, given: Options) -> dict[str, Any]:
    """Return arguments as they are meant: a template makes text of whatever it holds.

    Raises UsageError: a value says nothing, or is a text where something is on or off, or a number.
    """
    return {name: _meant(fields[name], value) for name, value in given.items()}


def _meant(field: OptionField, value: Any) -> Any:  # noqa: ANN401 - of any kind
    if isinstance(value, str) and value.strip() in _NONE:
        value = None
    field.refuse_nothing(value)
    if isinstance(value, str):
        return _of_text(field, value)
    if field.kind == "flag":
        return field.parsed(value)
    return list(value) if isinstance(value, tuple) else value


def _of_text(field: OptionField, value: str) -> Any:  # noqa: ANN401 - of any kind
    if field.kind == "texts":
        return [value]
    if field.kind == "flag":
        return _switch(field.name, value)
    plain_number = field.kind == "number" and not field.option.unit
    return _number(field.name, value.strip()) if plain_number else value


def _switch(name: str, text: str) -> bool:
    found = _SWITCHES.get(text.strip().lower())
    if found is None:
        raise _not_of_form(name, text, "true or false")
    return found


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _not_of_form(name, text, "a whole number") from None


def _not_of_form(name: str, text: str, form: str) -> UsageError:
    return UsageError(
        f"{name} is {quoted(text)}, which is not {form}", next_step="correct it, or its template"
    )
