"""Conversion of errors into Airflow's exceptions: a retry only for transient errors.

Also reads the failure of a firnline Spark job from the output of spark-submit.

The job ends with one line ``{"error": {"message": …, "next_step": …, "retryable": …}}``. An exit
code could not carry that: Spark itself uses the same ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firnline.airflow.said import say_failure
from firnline.airflow.versions import AirflowException, AirflowFailException
from firnline.errors import FirnlineError
from firnline.operations.dag_ids import TABLE
from firnline.operations.fields import option_fields
from firnline.operations.operation import AnyDag
from firnline.operations.registry import DAGS

if TYPE_CHECKING:
    import msgspec

_TYPED = re.compile(r"`firnline ([^`]*)`|`[^`]*`|(?<![\w-])--([a-z][a-z-]*)")
"""Commands as they are typed, and options outside of them."""
_LISTING = "see `firnline parts`; "
"""Of a step that goes on with what the command lists; no DAG lists it."""
_AFTER_APPROVAL = ("orphan_sweep", "delete")
"""DAG, and option of its command for which it has no param: it deletes after an approval."""
_COMMANDS: Mapping[str, AnyDag] = {each.command: each for each in DAGS}


def in_a_form(sentence: str) -> str:
    """Return a sentence in the words of forms: where for --where, and DAGs instead of commands.

    Anything else between backticks is for a shell and stays as it is: also a command, or an option
    of one, that no DAG has.
    """
    return _TYPED.sub(_in_a_form, sentence.replace(_LISTING, ""))


def _in_a_form(typed: re.Match[str]) -> str:
    command, option = typed.groups()
    if option:
        return str(option).replace("-", "_")
    return (command and _dag_for(command)) or typed[0]


def _dag_for(command: str) -> str | None:
    """Return the DAG that does what a command does, with its params; None if there is none."""
    head, *options = command.split(" --")
    name, _, table = head.partition(" ")
    operation = _COMMANDS.get(name)
    if operation is None or " " in table:
        return None
    kind: type[msgspec.Struct] = operation.options
    params = {field.flag: field.name for field in option_fields(kind)}
    # A form takes names only. A sentence that names a root means the table of the run.
    given = [f"{TABLE} {table}"] if table and "://" not in table else []
    for option in options:
        flag, _, value = option.partition(" ")
        if (operation.dag, flag) == _AFTER_APPROVAL:
            continue
        if f"--{flag}" not in params:
            return None
        given.append(f"{params[f'--{flag}']} {value}".rstrip())
    return f"the DAG `{operation.dag}`" + (f" ({', '.join(given)})" if given else "")


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Convert a FirnlineError raised within into Airflow's exception with its message.

    Within a task the message is also kept for the note of the run (``firnline.airflow.said``).

    Raises:
        AirflowFailException: a retry cannot help; the task fails at once.
        AirflowException: the error is transient; the task is retried after its delay.
    """
    try:
        yield
    except FirnlineError as error:
        told = as_airflow(str(error), retryable=error.retryable)
        say_failure(str(told))
        raise told from None


def as_airflow(sentence: str, *, retryable: bool) -> AirflowException:
    """Return the exception for a message, in the words of a form."""
    said = in_a_form(sentence)
    return AirflowException(said) if retryable else AirflowFailException(said)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """The reason why a job failed, in one sentence."""

    sentence: str
    retryable: bool


def failure_in(line: str) -> JobFailure | None:
    """Return the failure that a line of output states; None for any other line."""
    text = line.strip()
    if not text.startswith('{"error"'):
        return None
    try:
        error: Any = json.loads(text)["error"]
        return JobFailure(f"{error['message']}; {error['next_step']}", bool(error["retryable"]))
    except (ValueError, TypeError, KeyError):
        return None  # something else that looks like it
