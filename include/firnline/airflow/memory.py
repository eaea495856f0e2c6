"""Values that the planner of the fleet keeps from run to run, in variables of Airflow."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


def recall(name: str, form: type[T], empty: T) -> T:
    """Return what was kept under a name; ``empty`` if nothing was. One request; for a task.

    Also ``empty``, which is logged, if somebody has written something else there.

    Args:
        name: of the variable.
        form: type of what is kept.
        empty: what stands for nothing.
    """
    from airflow.sdk import Variable

    return decoded(name, Variable.get(name, default=None), form, empty)


def decoded(name: str, found: str | None, form: type[T], empty: T) -> T:
    """Return the value of a variable that has this text; ``empty`` as above."""
    if found is None:
        return empty
    try:
        return msgspec.json.decode(found, type=form)
    except msgspec.DecodeError as error:
        _LOG.warning("the variable %s is not as it was written: %s", name, error)
        return empty


def keep(name: str, value: object, description: str) -> None:
    """Keep a value under a name. One request; for a task."""
    from airflow.sdk import Variable

    Variable.set(name, encoded(value), description=description)


def encoded(value: object) -> str:
    """Return the text of a variable that has this value."""
    return msgspec.json.encode(value).decode()
