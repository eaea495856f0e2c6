"""Operators whose task submits a Spark job where parts have to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from firnline.airflow.failures import airflow_failures
from firnline.airflow.footers import FooterWork
from firnline.airflow.imports import ImportFolders, ImportWork
from firnline.airflow.making import JOBS
from firnline.airflow.merge import MergeWork
from firnline.airflow.operators.base import arguments, known_before, report_history, run_here
from firnline.airflow.operators.given import Options, WithOptions, refuse_nothing
from firnline.airflow.rewrite import RewriteWork
from firnline.airflow.submit import SubmitJob
from firnline.airflow.tables import TableInTheirDag
from firnline.airflow.tasks import MadePlan, conclude, run_in_task
from firnline.airflow.update import UpdateWork
from firnline.airflow.work import SparkWork
from firnline.airflow.works import DeleteWork, ReplaceWork, VerifyWork

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkOperator(WithOptions, SubmitJob):
    """An operation as one task of a DAG that is not ours, which submits a Spark job.

    Args:
        options: its arguments, with the table.
        jobs: folder of the Spark jobs; None: those of this package.
        more: as for BaseOperator.

    Raises UsageError: no such table, one that is known in a run only, a pool that is another, or an
    option that says nothing.
    """

    kind: ClassVar[SparkWork[Any]]
    in_their_dag = True
    reports_in = ""
    may_defer = False
    template_fields: Sequence[str] = ("options",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"options": "json"}

    def __init__(self, *, options: Options, jobs: Path | str | None = None, **more: Any) -> None:
        refuse_nothing(self.fields(), options)
        table = TableInTheirDag.named(self.kind.about, options["table"])
        taken, assets = arguments(self.kind, table, more)
        outlets = [*self._outlets(table), *assets["outlets"]]
        super().__init__(
            work=self.kind,
            table=table,
            jobs=JOBS if jobs is None else Path(jobs),
            **self._with_outlets(outlets),
            **taken,
        )
        self.reports_in = self.task_id
        self.options = dict(options)
        self.inlets = [*self.inlets, *assets["inlets"]]
        self.outlets = outlets

    def _outlets(self, table: TableInTheirDag) -> Sequence[Any]:
        about = self.kind.about
        return table.outlets(about) if about.changes_table else ()

    def _with_outlets(self, outlets: list[Any]) -> dict[str, Any]:
        return {"outlets": outlets}

    @classmethod
    def partial(cls, **given: Any) -> Any:  # noqa: ANN401 - Airflow's
        """Return the operator for ``expand``, in the pool of its table."""
        return super().partial(**known_before(cls.kind.about, cls.fields(), given))

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as the base class
        """Plan, have the job do the work, and publish the mirrors; return the figures."""
        return run_here(self, context, self._act)

    def _act(self, own: Context, _: MadePlan | None) -> None:
        SubmitJob.execute(self, own)
        report_history(self, own, self.work.report_sentence)


class Merge(SparkOperator):
    """Merges small parts of the table into large sorted ones.

    Args:
        table: name in the settings.
        partitions: only these, as globs; none: all of them.
        max_bytes: bytes to read at most, ``"10GiB"``; None: as the settings say.
        full: bring the partitions to the fewest parts now.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = MergeWork()

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | str = (),
        max_bytes: int | str | None = None,
        full: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "partitions": partitions,
            "max_bytes": max_bytes,
            "full": full,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Delete(SparkOperator):
    """Deletes the rows of the table for which a condition is true.

    Args:
        table: name in the settings.
        where: SQL, such as ``"ts < '{{ ds }}'"``, or a predicate as JSON.
        partitions: only these, as globs; none: all of them.
        mode: ``"eager"`` rewrites the parts at once, ``"lazy"`` hides the rows until the next
            merge; None: as the settings say.
        again: a cleared task does it again; without it a task that has completed is not repeated.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = DeleteWork()

    def __init__(
        self,
        *,
        table: str,
        where: str,
        partitions: Sequence[str] | str = (),
        mode: str | None = None,
        again: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "where": where,
            "partitions": partitions,
            "mode": mode,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Replace(SparkOperator):
    """Replaces an interval of the table by staged rows, or by nothing.

    Args:
        table: name in the settings.
        files: Parquet files with the new rows, or folders of them.
        start: of the interval, inclusive: ``"{{ ds }}"``.
        end: of the interval, exclusive.
        column: of times, dates or numbers; None: that of the layout.
        nothing: no new rows: the interval is empty afterwards.
        equal: only rows that have these values: ``{"client": 1234}``.
        partition: of all new rows, only without ``partition_by``.
        mode: ``"eager"`` rewrites the parts that the interval cuts at once, ``"lazy"`` leaves them
            to the next merge; None: as the settings say.
        again: a cleared task does it again. On, unlike elsewhere: a loading DAG that is cleared
            has staged its rows anew, and the same interval may be replaced any number of times.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = ReplaceWork()

    def __init__(  # noqa: PLR0913 - one per option
        self,
        *,
        table: str,
        start: str | int | float,
        end: str | int | float,
        files: Sequence[str] | str = (),
        column: str | None = None,
        nothing: bool | str = False,
        equal: Mapping[str, Any] | None = None,
        partition: str | None = None,
        mode: str | None = None,
        again: bool | str = True,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "files": files,
            "start": start,
            "end": end,
            "column": column,
            "nothing": nothing,
            "equal": {} if equal is None else equal,
            "partition": partition,
            "mode": mode,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Rewrite(SparkOperator):
    """Rewrites partitions of the table, by a filter or by a query.

    To be asked before the commit, with the evidence of what changes, use the DAG
    ``rewrite_partitions``.

    Args:
        table: name in the settings.
        where: condition for the rows that stay.
        sql: instead of it: a query over ``_rows``, the rows of one partition.
        partitions: globs of those to rewrite; ``"*"`` for all.
        force: also where more rows go than the settings allow.
        again: a cleared task does it again; without it a task that has completed is not repeated.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = RewriteWork()
    needed = frozenset({"partitions"})

    def __init__(
        self,
        *,
        table: str,
        partitions: Sequence[str] | str,
        where: str | None = None,
        sql: str | None = None,
        force: bool | str = False,
        again: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "where": where,
            "sql": sql,
            "partitions": partitions,
            "force": force,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Update(SparkOperator):
    """Gives rows of the table new values where a condition is true, in one transaction.

    To be asked before the commit, with the evidence of what changes, use the DAG ``update_where``.

    Args:
        table: name in the settings.
        set: columns with the expressions of their new values: ``"status = 'closed'"``, or several.
        where: condition for the rows that change.
        partitions: only these, as globs; none: all of them.
        again: a cleared task does it again; without it a task that has completed is not repeated.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = UpdateWork()
    needed = frozenset({"set"})

    def __init__(
        self,
        *,
        table: str,
        set: Sequence[str] | str,  # noqa: A002 - the word of SQL, as at the other doors
        where: str,
        partitions: Sequence[str] | str = (),
        again: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "set": set,
            "where": where,
            "partitions": partitions,
            "again": again,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)


class Import(SparkOperator, ImportFolders):
    """Imports the new files of folders into the table; a job runs only where rows must be read.

    It holds no pool, so ``table`` may be a template.

    Args:
        table: name in the settings.
        source: URLs of folders in the table's bucket; none: those of the settings.
        new: take the files that no import has taken so far.
        exclude: globs of files to leave out.
        path_types: types of columns that only the folders state: ``"day=DATE"``.
        no_path_columns: leave such columns out.
        skip_bad: take the other files if some cannot be taken.
        split: read files that span partitions, and write their rows anew.
        dry_run: only plan.
        more: as for BaseOperator.
    """

    kind = ImportWork()

    def __init__(  # noqa: PLR0913 - one per option
        self,
        *,
        table: str,
        source: Sequence[str] | str = (),
        new: bool | str = True,
        exclude: Sequence[str] | str = (),
        path_types: Sequence[str] | str = (),
        no_path_columns: bool | str = False,
        skip_bad: bool | str = False,
        split: bool | str = False,
        dry_run: bool | str = False,
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "source": source,
            "new": new,
            "exclude": exclude,
            "path_types": path_types,
            "no_path_columns": no_path_columns,
            "skip_bad": skip_bad,
            "split": split,
            "dry_run": dry_run,
        }
        super().__init__(options=options, **more)

    def _outlets(self, table: TableInTheirDag) -> Sequence[Any]:
        return table.outlets(self.kind.about)

    def _with_outlets(self, outlets: list[Any]) -> dict[str, Any]:  # noqa: ARG002 - as the base class
        return {}  # the class after it in line has its own

    def _act(self, own: Context, _: MadePlan | None) -> None:
        ImportFolders.execute(self, own)


class Verify(SparkOperator):
    """Checks that log, transactions and objects of the table agree; a job runs only if it is deep.

    Args:
        table: name in the settings.
        deep: read the footer of every live part too, in a Spark job.
        rows: read live parts as a whole, in its driver.
        sample: with ``rows``: one part of this many, others each day.
        witness: lines that ``firnline witness`` printed before.
        more: as for BaseOperator.
    """

    kind = FooterWork()
    checks = VerifyWork()

    def __init__(
        self,
        *,
        table: str,
        deep: bool | str = False,
        rows: bool | str = False,
        sample: int | str = 1,
        witness: Sequence[str] | str = (),
        **more: Any,
    ) -> None:
        options = {
            "table": table,
            "deep": deep,
            "rows": rows,
            "sample": sample,
            "witness": witness,
        }
        super().__init__(options=options, **more)

    keeps_report = True

    def _act(self, own: Context, _: MadePlan | None) -> None:
        run_in_task(self.checks, self.table, own)
        if own["params"].get("deep") or own["params"].get("rows"):
            SubmitJob.execute(self, own)

    def concluded(self, context: Context, carried: dict[str, Any]) -> None:  # noqa: ARG002 - as SubmitJob
        """Say what the deep check has read and found."""
        with airflow_failures():
            name, figures = self.table.of_run(context).name, self.report
        said = self.work.report_sentence(figures) if figures else "the deep check found nothing"
        conclude(context, name, said)
