"""Operators for what asks a person: they start a run of firnline's own DAG, which does the asking.

A task cannot ask and then act, and who may approve is a matter of those DAGs. A run that was
started so is an ordinary one of theirs, with the table in its configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from firnline.operations.dag_ids import TABLE, dag_id
from firnline.operations.operation import AnyDag
from firnline.operations.registry import DROP, ERASE, SWEEP


class AskingOperator(TriggerDagRunOperator):
    """Starts a run of the DAG of an operation that asks a person.

    The task ends once the run is started; with ``wait_for_completion=True`` once it has ended,
    which may take as long as the answer: give ``deferrable=True`` then.

    Args:
        options: params of the run, with the table.
        more: as for TriggerDagRunOperator.
    """

    about: ClassVar[AnyDag]

    def __init__(self, *, options: Mapping[str, Any], **more: Any) -> None:
        given = {name: value for name, value in options.items() if value not in (None, ())}
        super().__init__(
            trigger_dag_id=dag_id(self.about.dag),
            conf={name: list(v) if isinstance(v, tuple) else v for name, v in given.items()},
            **{"task_id": self.about.command, **more},
        )


class Erase(AskingOperator):
    """Erases the rows of a set of keys, once a person has approved it.

    Args:
        table: name in the settings.
        columns: the key columns.
        keys_file: Parquet or CSV with these columns, in the table's bucket or where the worker and
            the driver can read it. Keys are never given here: Airflow would keep them.
        answer_within: time to answer.
        dry_run: only plan; nobody is asked.
        more: as for TriggerDagRunOperator.
    """

    about = ERASE

    def __init__(
        self,
        *,
        table: str,
        columns: Sequence[str],
        keys_file: str,
        answer_within: str = "24h",
        dry_run: bool = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "columns": list(columns),
            "keys_file": keys_file,
            "answer_within": answer_within,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Drop(AskingOperator):
    """Removes the partitions that a person picks of a list, and approves.

    Args:
        table: name in the settings.
        partitions: globs of those to list; none: all of them.
        answer_within: time to answer.
        dry_run: only list; nobody is asked.
        more: as for TriggerDagRunOperator.
    """

    about = DROP

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] = (),
        answer_within: str = "24h",
        dry_run: bool = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "partitions": tuple(partitions),
            "answer_within": answer_within,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Sweep(AskingOperator):
    """Deletes objects that no log file names, once a person has seen the list.

    Args:
        table: name in the settings.
        older_than: minimum age of an orphan: ``"7d"``; None: as the settings say.
        answer_within: time to answer.
        dry_run: only list; nobody is asked.
        more: as for TriggerDagRunOperator.
    """

    about = SWEEP

    def __init__(
        self,
        *,
        table: str,
        older_than: str | None = None,
        answer_within: str = "24h",
        dry_run: bool = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "older_than": older_than,
            "answer_within": answer_within,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)
