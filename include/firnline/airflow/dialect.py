"""The dialect of JSON Schema of params, whose refusals are one sentence.

Airflow answers a refused value with the error of ``jsonschema``: regular expression, keyword and
schema. ``jsonschema`` takes the validator by the ``$schema`` of a schema, so params name a dialect
of their own. ``firnline.airflow.policy`` registers it in every process of Airflow.

* A value is refused by the standard keywords of the schema except ``format``, by which Airflow's
  form chooses the field: a date picker must not forbid ``2024-03-05`` or a number elsewhere.
* The refusal names the value and the form that it should have, the schema's keyword ``form``.
* Schemas are not checked whenever a DAG is parsed, which was most of the cost of a param.

A process without the package takes the standard dialect, with its longer answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from jsonschema import (  # type: ignore[import-untyped] # its types are a package of their own
    Draft202012Validator,
    ValidationError,
    validators,
)

from firnline.errors import cut

DIALECT = "urn:firnline:param"
_STANDARD = Draft202012Validator.VALIDATORS.keys() - {"format"}
_MOST = 2**63
TOO_LARGE = (
    "has a whole number beyond 64 bits, which Airflow cannot hand on to tasks: write it as a text"
)
_CHOICES = 10
"""Maximum choices in a sentence."""


class RefusedValueError(ValidationError):  # type: ignore[misc] # untyped
    """A refused value; its text is the sentence alone."""

    def __str__(self) -> str:
        """Return the sentence."""
        return str(self.message)


def _refusals(
    validator: Any,  # noqa: ANN401, ARG001 - as jsonschema calls it
    dialect: Any,  # noqa: ANN401, ARG001 - the keyword's value, a name here
    value: Any,  # noqa: ANN401 - any JSON
    schema: Mapping[str, Any],
) -> Iterator[RefusedValueError]:
    """Yield one refusal if the standard keywords refuse the value."""
    if is_too_large(value):
        yield RefusedValueError(f"{_shown(value)} {TOO_LARGE}")
        return
    standard = {name: each for name, each in schema.items() if name in _STANDARD}
    if not Draft202012Validator(standard).is_valid(value):
        yield RefusedValueError(_sentence(value, schema))


def _sentence(value: object, schema: Mapping[str, Any]) -> str:
    form = schema.get("form") or _one_of(value, schema.get("enum", ()))
    if value is None:
        return f"a value is needed, {form}"
    if value in ("", []):
        return f"the value is empty: write {form}"
    return f"{_shown(value)} is not {form}"


def _shown(value: object) -> str:
    return cut(json.dumps(value, ensure_ascii=False))


def is_too_large(value: object) -> bool:
    """Return True for JSON with a whole number that does not fit 64 bits, at any depth."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, int) and not -_MOST <= each < _MOST:
            return True
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False


def _one_of(value: object, choices: list[Any]) -> str:
    """Return the choices as a phrase; of many those that look like the value."""
    known = [str(each) for each in choices if each is not None]
    shown = known
    if len(known) > _CHOICES:
        shown = get_close_matches(str(value), known) or known[:_CHOICES]
    more = f" and {len(known) - len(shown)} more" if len(shown) < len(known) else ""
    return f"one of {', '.join(shown)}{more}"


# The meta-schema has a name only: nothing is checked against it.
validators.create({"$id": DIALECT}, {"$schema": _refusals}, version="firnline")
