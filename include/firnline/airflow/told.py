"""Check the arguments of ``dag_factory`` before any DAG is made.

A plain value is checked by the rule of the settings for the same key, so that both doors allow the
same. Objects that a file of settings cannot have are left to Airflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from pydantic import ValidationError

from firnline.airflow.arguments import CALLBACKS, KEYS, OF_TASKS, TIMES, of_airflow
from firnline.errors import UsageError, quoted, some
from firnline.operations.pools import NO_TABLE, is_lock_of
from firnline.settings.airflow import DagSection
from firnline.settings.cron import check_schedule
from firnline.settings.load import Settings
from firnline.settings.mistakes import describe
from firnline.settings.sections import ALL_OPERATIONS, Operation

BELOW = ("operations", "tables")
"""Keys that have levels below them."""
_ONE_SCHEDULE = (
    "give it to an operation of a table: "
    "tables={'events': {'operations': {'verify': {'schedule': ...}}}}"
)
_TEXTS = ("queue", "pool", "executor", "owner")


@dataclass(frozen=True, slots=True)
class Told:
    """Arguments of ``dag_factory``: for all DAGs, by operation and by table."""

    everywhere: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Told:
        """Return what was given, as Airflow takes it.

        Raises UsageError: a name that is none, a value that its key does not take, or a schedule of
        many DAGs.
        """
        return cls(_level(given, "dag_factory", BELOW))

    @property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is said by table."""
        found: Mapping[str, Mapping[str, Any]] = self.everywhere.get("tables", {})
        return found

    def levels(self, operation: str | None, table: str | None) -> list[Mapping[str, Any]]:
        """Return the levels that hold, the widest first: all, operation, table, both."""
        own: Mapping[str, Any] = self.tables.get(table, {}) if table is not None else {}
        named = (level.get("operations", {}).get(operation, {}) for level in (self.everywhere, own))
        by_operation, by_both = named
        return [self.everywhere, by_operation, own, by_both]

    def scheduled(self, table: str) -> frozenset[Operation]:
        """Return the operations of a table that have a schedule here."""
        below = self.tables.get(table, {}).get("operations", {})
        return frozenset(name for name, said in below.items() if said.get("schedule") is not None)

    def refuse_unfit(self, settings: Settings) -> None:
        """Refuse what the settings have no place for.

        Raises UsageError: a table that they do not have, or a pool that is the lock of a table.
        """
        known = {*settings.tables, *settings.broken}
        unknown = sorted(set(self.tables) - known)
        if unknown and not settings.unread:
            raise UsageError(
                f"dag_factory names {some(map(quoted, unknown))} in tables, and the settings have "
                "no such table",
                next_step=f"add it to {settings.path}, or correct the DAG file",
            )
        for where, pool in self._pools():
            locked = pool == NO_TABLE or any(is_lock_of(pool, name) for name in known)
            if locked:
                raise UsageError(
                    f"{where} has pool {pool!r}, which is a lock of firnline: tasks that hold no "
                    "lock would wait for those that do",
                    next_step="name another pool, or leave it out: what works has its lock",
                )

    def _pools(self) -> Iterator[tuple[str, str]]:
        for where, level in _all_levels("dag_factory", self.everywhere):
            for said in (level, level.get("default_args") or {}):
                if isinstance(pool := said.get("pool"), str):
                    yield where, pool


NOTHING = Told()


def _all_levels(where: str, level: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield where, level
    for kind in BELOW:
        for name, below in level.get(kind, {}).items():
            yield from _all_levels(f"{kind}[{name!r}] of {where}", below)


def _level(given: Any, where: str, below: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401 - what a DAG file has
    _refuse_names(given, where, below)
    if "schedule" in given and below:  # all DAGs, or all of a table
        raise UsageError(
            f"{where} has a schedule, and each operation of each table has its own",
            next_step=_ONE_SCHEDULE,
        )
    found = {k: _value(where, k, v) for k, v in given.items() if k not in BELOW}
    for kind in below:
        if kind in given:
            found[kind] = _levels(given[kind], kind, where)
    return found


def _levels(given: Any, kind: str, where: str) -> dict[str, Any]:  # noqa: ANN401 - what a DAG file has
    if not isinstance(given, Mapping):
        raise _no_mapping(f"{where} has {kind} {quoted(given)}", "{'merge': {'queue': 'large'}}")
    if kind == "tables":
        return {
            name: _level(below, f"tables[{name!r}]", ("operations",))
            for name, below in given.items()
        }
    found = {}
    for name, below in given.items():
        if name not in ALL_OPERATIONS:
            raise UsageError(
                f"{where} names the operation {name!r}, which no DAG has",
                next_step=f"use {', '.join(ALL_OPERATIONS)}",
            )
        found[name] = _level(below, f"operations[{name!r}] of {where}", ())
        if "schedule" in below and where == "dag_factory":
            raise UsageError(
                f"a schedule was given for all DAGs of {name}, and a run of a DAG for all tables "
                "has to name its table",
                next_step=_ONE_SCHEDULE,
            )
    return found


def _refuse_names(level: Any, where: str, below: Sequence[str]) -> None:  # noqa: ANN401 - what a DAG file has
    if not isinstance(level, Mapping):
        raise _no_mapping(f"{where} has {level!r}", "{'queue': 'large'}")
    unknown = sorted(set(map(str, level)) - {*KEYS, *below})
    if unknown:
        raise UsageError(
            f"{where} knows no {some(unknown)}", next_step=f"use {', '.join((*KEYS, *below))}"
        )


def _no_mapping(found: str, example: str) -> UsageError:
    return UsageError(f"{found} where a mapping is needed", next_step=f"write it as {example}")


# --- values ---------------------------------------------------------------------------------------


def _value(where: str, key: str, given: Any) -> Any:  # noqa: ANN401 - of any kind
    """Return a value as Airflow takes it; None undoes a wider level. Raises UsageError."""
    if given is None or _is_object(key, given):
        return given
    if key == "default_args":
        return _default_args(where, given)
    if key == "schedule":
        return _schedule(where, given)
    return _by_settings(where, key, given)


def _is_object(key: str, given: object) -> bool:
    """Return True for what only Python has, which Airflow itself knows."""
    if key in CALLBACKS:
        several = given if isinstance(given, list | tuple) else (given,)
        return bool(several) and all(map(callable, several))
    if key in TIMES:
        return isinstance(given, timedelta)
    if key == "executor_config":
        return isinstance(given, Mapping)
    if key == "start_date":
        return isinstance(given, date)
    if key == "schedule":
        return not isinstance(given, str | bool | int | float | Mapping)
    return key == "weight_rule" and not isinstance(given, str | bool | int | float)


def _default_args(where: str, given: Any) -> dict[str, Any]:  # noqa: ANN401 - what a DAG file has
    if not isinstance(given, Mapping):
        raise _no_mapping(f"{where} has default_args {quoted(given)}", "{'retries': 5}")
    return {
        key: _value(f"default_args of {where}", key, value) if key in OF_TASKS else value
        for key, value in given.items()
    }


def _schedule(where: str, given: object) -> str:
    try:
        return check_schedule(str(given))
    except ValueError as error:
        why, _, step = str(error).partition("; ")
        raise UsageError(
            f"{where} has schedule {quoted(given)}: {why}", next_step=step or "correct it"
        ) from None


def _by_settings(where: str, key: str, given: object) -> Any:  # noqa: ANN401 - of the key's kind
    _refuse_kind(where, key, given)
    plain: object = given
    if key in TIMES and isinstance(given, int | float):
        plain = f"{given}s"  # as Airflow counts it
    try:
        section = DagSection.model_validate({key: plain})
    except ValidationError as error:
        line = describe(where, error.errors(include_url=False)[0], DagSection)
        message, _, step = line.partition("; ")
        raise UsageError(message, next_step=step or "correct the DAG file") from None
    return of_airflow(section.said)[key]


def _refuse_kind(where: str, key: str, given: object) -> None:
    """Refuse a value of a kind that settings would read from YAML."""
    form = None
    if key == "tags" and not _are_texts(given):
        form = "a list of texts, such as ['lake']"
    elif key in _TEXTS and not isinstance(given, str):
        form = f"a text, such as {key}='maintenance'"
    elif key in CALLBACKS and not isinstance(given, str):
        form = "a function, or the name of one such as 'package.module:name'"
    elif key in TIMES and isinstance(given, bool):
        form = "a time, such as '5m'"
    if form is not None:
        raise UsageError(f"{where} has {key} {quoted(given)}", next_step=f"write {form}")


def _are_texts(given: object) -> bool:
    return (
        isinstance(given, Iterable)
        and not isinstance(given, str | Mapping)
        and all(isinstance(each, str) for each in given)
    )
