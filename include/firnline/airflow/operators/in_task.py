"""Operators whose task does the work in its own process: no JVM starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from firnline.airflow.certificates import CERTIFICATES, CleanupRun, complete
from firnline.airflow.operators.base import arguments, known_before, run_here
from firnline.airflow.operators.given import Options, WithOptions, refuse_nothing
from firnline.airflow.tables import TableInTheirDag
from firnline.airflow.tasks import MadePlan, RunInTask
from firnline.airflow.versions import AirflowSkipException
from firnline.airflow.work import InTaskWork
from firnline.airflow.works import RebuildWork, RestoreWork, TtlWork

if TYPE_CHECKING:
    from airflow.sdk import Context


class InTaskOperator(WithOptions, RunInTask):
    """An operation as one task of a DAG that is not ours, without Spark.

    Args:
        options: its arguments, with the table.
        more: as for BaseOperator.

    Raises UsageError: no such table, one that is known in a run only, a pool that is another, or an
    option that says nothing.
    """

    kind: ClassVar[InTaskWork[Any]]
    in_their_dag = True
    template_fields: Sequence[str] = ("options",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json"}

    def __init__(self, *, options: Options, **more: Any) -> None:
        refuse_nothing(self.fields(), options)
        table = TableInTheirDag.named(self.kind.about, options["table"])
        taken, assets = arguments(self.kind, table, more)
        super().__init__(work=self.kind, table=table, **taken)
        self.options = dict(options)
        self.inlets = [*self.inlets, *assets["inlets"]]
        self.outlets = [*self.outlets, *assets["outlets"]]

    @classmethod
    def partial(cls, **given: Any) -> Any:  # noqa: ANN401 - Airflow's
        """Return the operator for ``expand``, in the pool of its table."""
        return super().partial(**known_before(cls.kind.about, cls.fields(), given))

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan, do the work and publish the mirrors; return the figures."""
        return run_here(self, context, self._act)

    def _act(self, own: Context, _: MadePlan | None) -> None:
        RunInTask.execute(self, own)


class Ttl(InTaskOperator):
    """Drops what is past the age that the table keeps.

    It asks nobody: more than ``ttl.max_removed_fraction`` of the table is refused without force.

    Args:
        table: name in the settings.
        partitions: only these, as globs; none: all of them.
        force: whatever part of the table that is.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = TtlWork()

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | str = (),
        force: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {"table": table, "partitions": partitions, "force": force, "dry_run": dry_run}
        super().__init__(options=options, **more)


class Cleanup(InTaskOperator):
    """Deletes objects that were replaced and whose grace is over, and completes certificates.

    Args:
        table: name in the settings.
        max_deletes: objects to delete at most; None: as the settings say.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = CleanupRun()

    def __init__(
        self,
        *,
        table: str,
        max_deletes: int | str | None = None,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {"table": table, "max_deletes": max_deletes, "dry_run": dry_run}
        super().__init__(options=options, **more)

    def _act(self, own: Context, made: MadePlan | None) -> None:
        planned: Mapping[str, Any] = {} if made is None else made.figures
        figures: dict[str, Any] = {}
        if not planned.get("nothing_to_delete"):
            with suppress(AirflowSkipException):  # somebody else has deleted it meanwhile
                figures = RunInTask.execute(self, own)
        if ids := planned.get(CERTIFICATES):
            figures |= complete(self.table, ids, own)
        own["ti"].xcom_push("return_value", figures)


class Restore(InTaskOperator):
    """Undoes what transactions did to partitions of the table.

    Args:
        table: name in the settings.
        to: the last transaction after which the state was right; 0: before the first.
        partitions: globs of those to restore; ``"*"`` for all.
        exact: also remove what was appended since.
        newest: newest transaction to undo; a later one makes the task fail. None: all are undone.
        again: a cleared task does it again; without it a task that has completed is not repeated.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = RestoreWork()
    needed = frozenset({"partitions"})

    def __init__(
        self,
        *,
        table: str,
        to: int | str,
        partitions: Sequence[str] | str,
        exact: bool | str = False,
        newest: int | str | None = None,
        again: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "to": to,
            "partitions": partitions,
            "exact": exact,
            "newest": newest,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Rebuild(InTaskOperator):
    """Writes the lost log of the table from its parts and transactions.

    Args:
        table: name in the settings.
        include: globs over keys or names: undecided parts that go in.
        exclude: globs over keys or names of objects that stay out.
        force: also rebuild a log that reads and lacks nothing.
        revive: bring back what transactions that are lost may have removed.
        again: a cleared task does it again; without it a task that has completed is not repeated.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = RebuildWork()

    def __init__(
        self,
        *,
        table: str,
        include: Sequence[str] | str = (),
        exclude: Sequence[str] | str = (),
        force: bool | str = False,
        revive: bool | str = False,
        again: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "include": include,
            "exclude": exclude,
            "force": force,
            "revive": revive,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)
