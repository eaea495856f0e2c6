"""Operators for what asks a person: they start a run of firnline's own DAG, which does the asking.

A task cannot ask and then act, and who may approve is a matter of those DAGs. A run that was
started so is an ordinary one of theirs, with the table in its configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from firnline.airflow.failures import airflow_failures
from firnline.airflow.operators.given import Fields, Options, fields_of, refuse_nothing, rendered
from firnline.airflow.removal import Listing
from firnline.operations.dag_ids import TABLE, dag_id
from firnline.operations.operation import AnyDag
from firnline.operations.options import EraseOptions, SweepOptions
from firnline.operations.registry import DROP, ERASE, SWEEP

if TYPE_CHECKING:
    import msgspec
    from airflow.sdk import Context


class AskingOperator(TriggerDagRunOperator):
    """Starts a run of the DAG of an operation that asks a person.

    The task ends once the run is started; with ``wait_for_completion=True`` once it has ended,
    which may take as long as the answer: give ``deferrable=True`` then.

    Args:
        options: params of the run, with the table.
        more: as for TriggerDagRunOperator.

    Raises UsageError: an option says nothing.
    """

    about: ClassVar[AnyDag]
    asked: ClassVar[type[msgspec.Struct]]
    """The options that the DAG asks for."""
    needed: ClassVar[frozenset[str]] = frozenset()
    """Options that it asks for, though the operation does not."""

    def __init__(self, *, options: Options, **more: Any) -> None:
        refuse_nothing(self.fields(), options)
        given = {name: value for name, value in options.items() if value not in (None, (), [])}
        super().__init__(
            trigger_dag_id=dag_id(self.about.dag),
            conf={name: list(v) if isinstance(v, tuple) else v for name, v in given.items()},
            **{"task_id": self.about.command, **more},
        )

    @classmethod
    def fields(cls) -> Fields:
        """Return the fields of its arguments."""
        return fields_of(cls.asked, cls.needed)

    @classmethod
    def partial(cls, **given: Any) -> Any:  # noqa: ANN401 - Airflow's
        """Return the operator for ``expand``."""
        refuse_nothing(cls.fields(), given)
        return super().partial(**given)

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as the base class
        """Start the run, with the options as they are meant.

        Raises an AirflowFailException for one that says nothing, or cannot be meant.
        """
        with airflow_failures():
            meant = rendered(self.fields(), self.conf or {})
        self.conf = {name: value for name, value in meant.items() if value is not None}
        return super().execute(context)


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
    asked = EraseOptions
    needed = frozenset({"keys_file"})

    def __init__(
        self,
        *,
        table: str,
        columns: Sequence[str] | str,
        keys_file: str,
        answer_within: str = "24h",
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "columns": columns,
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
    asked = Listing

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | str = (),
        answer_within: str = "24h",
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "partitions": partitions,
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
    asked = SweepOptions

    def __init__(
        self,
        *,
        table: str,
        older_than: str | None = None,
        answer_within: str = "24h",
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            TABLE: table,
            "older_than": older_than,
            "answer_within": answer_within,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)
