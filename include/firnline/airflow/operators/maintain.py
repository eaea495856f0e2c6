"""The usual maintenance of a table as a task group of a DAG that is not ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow.sdk import TaskGroup

from firnline.airflow.operators.in_task import Cleanup, Ttl
from firnline.airflow.operators.spark import Merge, Verify
from firnline.airflow.tables import TableInTheirDag
from firnline.errors import UsageError, quoted
from firnline.operations.registry import MERGE

Wish = bool | Mapping[str, Any]
"""True or False: the operation is part of the group or not; a mapping: its arguments."""


def maintain(
    table: str,
    *,
    ttl: Wish | None = None,
    merge: Wish = True,
    cleanup: Wish = True,
    verify: Wish = False,
    group_id: str | None = None,
    **more: Any,
) -> TaskGroup:
    """Make a task group that keeps a table in shape: TTL, merge, clean-up, and verification.

        load() >> maintain("events", merge={"max_bytes": "50GiB"}, verify=True)

    Each has to succeed before the next one starts: what is dropped is not merged, and what was
    merged is deleted once its grace is over. For operations that take turns with those of the
    planner the pools of the table see to it, as everywhere.

    Args:
        table: name in the settings.
        ttl: True, False, or arguments of ``Ttl``; None: if the table has a ``ttl`` section.
        merge: True, False, or arguments of ``Merge``.
        cleanup: True, False, or arguments of ``Cleanup``.
        verify: True, False, or arguments of ``Verify``.
        group_id: of the group; None: the table with maintain_ before it.
        more: arguments of every task of the group, such as ``queue`` or ``dry_run``.

    Raises UsageError: no such table, one that is known in a run only, an empty group, or an
    operation that is neither on nor off.
    """
    known = TableInTheirDag.named(MERGE, table).known
    if ttl is None:
        ttl = known is not None and known.ttl is not None
    wishes = {Ttl: ttl, Merge: merge, Cleanup: cleanup, Verify: verify}
    for operator, wish in wishes.items():
        _refuse_no_wish(operator.__name__.lower(), wish)
    chosen = [(operator, wish) for operator, wish in wishes.items() if wish is not False]
    if not chosen:
        raise UsageError(
            f"maintain has nothing to do on table {table}",
            next_step="leave one of ttl, merge, cleanup and verify on",
        )
    named = group_id or f"maintain_{re.sub(r'[^A-Za-z0-9_-]', '_', table)}"
    with TaskGroup(group_id=named, tooltip=f"maintenance of table {table}") as group:
        before: Any = None
        for operator, wish in chosen:
            task = _made(operator, table, wish, more)
            before = task if before is None else before >> task
    return group


def _refuse_no_wish(name: str, wish: object) -> None:
    if not isinstance(wish, bool | Mapping):
        raise UsageError(
            f"{name} of maintain is {quoted(wish)}",
            next_step=f"write True, False or a mapping of its arguments, such as "
            f"{name}={{'task_id': '{name}_at_night'}}",
        )


def _made(operator: Any, table: str, wish: Wish, more: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of the operators
    given = {**more, **(wish if isinstance(wish, Mapping) else {})}
    if operator is Verify:
        given.pop("dry_run", None)  # it only looks
    return operator(table=table, **given)
