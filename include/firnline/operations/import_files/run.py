"""Import: a folder of Parquet files becomes a table or a part of it. An append without rows.

Files are copied by the store itself, those that lie under ``_data/`` already are taken where they
are, and the folder is never written to. Files that span partitions are read and written by an
engine, if that is asked for. One log file at the end makes all of it visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from firnline.appends.claims import Claims
from firnline.commit import append_log as birth
from firnline.commit.append_log import publish_append
from firnline.commit.base import take_base
from firnline.commit.outputs import Outputs
from firnline.errors import (
    CommitConflictError,
    PartUnreadableError,
    UsageError,
    raised_elsewhere,
)
from firnline.kernel.engine import Engine
from firnline.log.imports import (
    ImportedFrom,
    record_line,
)
from firnline.log.records import LogContent, Marker, marker_of, sort_json, stats_json
from firnline.operations.import_files.listing import (
    refuse_rewritten,
)
from firnline.operations.import_files.look import Looked, look, prefix_of
from firnline.operations.import_files.plan import (
    Fault,
    ImportPlan,
    PlannedFile,
    refusal,
)
from firnline.operations.import_files.progress import ImportProgress
from firnline.operations.import_files.taken import (
    write_taken,
    write_visible,
)
from firnline.operations.import_options import ImportOptions
from firnline.operations.new_rows import NewRowTasks, RowFile, WrittenRows, runs_of
from firnline.operations.operation import Work, no_engine
from firnline.operations.runner import Report, RunMetrics
from firnline.parquet.part import PartMetadata
from firnline.paths import Root, check_writer
from firnline.state.snapshot import Snapshot
from firnline.store.create import Attempt
from firnline.store.transfer import each
from firnline.table import Table

_TELL_EVERY = 10
_LIST = "imported files "
"""Before the number of a list: the key that an import claims which continues the one before."""


class ImportReport(Report, frozen=True, kw_only=True):
    """Result of an import."""

    table: str
    source: str
    dry_run: bool
    log_file: str | None
    """Key of the log file that made it visible."""
    parts_written: int
    """Parts with the rows of files that were read."""
    partitions: int
    """Partitions that have got rows."""
    plan: dict[str, object]
    """As ``ImportPlan.to_json``."""
    requests: dict[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Began:
    """The state in which an import begins, as for an append."""

    id: str
    snapshot: Snapshot
    """Its columns are neither older nor newer than its sequence: by that alone anybody can tell
    which column a name meant that a transaction has changed."""
    elapsed_ms: int
    table: Table
    """With the settings in force."""
    begins: bool
    """As ``Origin.begins``."""
    stated: bool
    """The table states properties."""
    by: str
    """Name of the writer: ``ImportOptions.writer``."""

    @property
    def writer(self) -> str:
        """Name in the log file's key, and in the footers of parts that are written."""
        return f"{self.by}-{self.id}"

    @property
    def q(self) -> int:
        """Newest transaction of the snapshot and of the history."""
        return self.snapshot.seq


def preview(
    table: Table,
    options: ImportOptions,
    on_progress: Callable[[ImportProgress], None] | None = None,
) -> ImportPlan:
    """Look at every footer and plan; nothing is written but an unpublished transaction.

    Requests: those of ``run_import`` but the copies and the log file.
    """
    prefix, began = prefix_of(table, options.source), _begin(table, options.writer)
    tell = on_progress or (lambda _: None)
    return look(began.table, began.snapshot, options, prefix, tell).plan


def run_import(work: Work, options: ImportOptions) -> ImportReport:
    """Import a folder.

    Requests: those of ``take_base``, a LIST per 1,000 objects of the folder, a ranged GET per
    file, a copy per file that does not lie in place, 1 PUT; where it begins the table 1 LIST and
    1 PUT more. The files are listed once more. Unless they lie in place, 3 PUT for the claim, the
    list of files and that it is visible, 1 GET of the list so far (without one 1 LIST), and 4 LIST
    for each of four folders above. Of files that are read no copy, and those of
    ``NewRowTasks.write``.

    Args:
        work: on what, and for whom; told after every task, and every ten footers and copies.
        options: what to import.

    Raises:
        UsageError: no such folder, another bucket, imported before, or a file whose partition
            cannot be told; the last three name it.
        PartUnreadableError, PartSchemaError, SchemaConflictError: a file that does not fit.
        ScratchFullError, KernelError: a task failed; see ``NewRowTasks.write``.
        AppendExpiredError: it took longer than ``append.ttl``.
        CommitConflictError: another import became visible meanwhile, or a file was written again.
        CommitUnknownError: nobody can say whether it is visible; the copies stay.

    After any error but the last one the table is as it was and no copy stays. Of an interrupt
    ``commit.outputs`` says what stays.
    """
    table = work.table
    metrics = RunMetrics(table)
    prefix = prefix_of(table, options.source)
    began = _begin(table, options.writer)
    table = began.table
    tell = work.tell
    looked = look(table, began.snapshot, options, prefix, tell)
    plan, log_file, written, partitions = looked.plan, None, 0, 0
    if not options.dry_run and not plan.nothing_to_do:
        done = _Work(table, looked, prefix, began, tell, options.skip_bad).execute(work.engine)
        plan, log_file, written = done.plan, done.log_file, len(done.rows.parts)
        of_files = {file.partition for file in plan.files}
        of_parts = {table.paths.parse_part(part.key).partition for part in done.rows.parts}
        partitions = len(of_files | of_parts)
    return ImportReport(
        table=table.settings.name,
        source=options.source,
        dry_run=options.dry_run,
        log_file=log_file,
        parts_written=written,
        partitions=partitions,
        plan=plan.to_json(),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def _begin(table: Table, writer: str) -> _Began:
    check_writer(writer)
    base = take_base(table, may_hold_objects=True)
    begins = birth.begins(base.table, base.seq, born=base.born)
    made = table.ids.uuid7(table.clock.now_ms())
    return _Began(
        made,
        base.snapshot,
        base.began_ms,
        base.table,
        begins,
        base.properties is not None,
        writer,
    )


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of an import: plan, parts, and the log file that shows them."""

    plan: ImportPlan
    """Without the files of which the rows turned out not to fit."""
    rows: WrittenRows
    log_file: str | None


@dataclass(frozen=True, slots=True)
class _Work:
    """What is done once the plan stands."""

    table: Table
    looked: Looked
    prefix: str
    began: _Began
    tell: Callable[[ImportProgress], None]
    skip_bad: bool
    out: tuple[Fault, ...] = ()
    """Files of which the rows turned out not to fit."""

    @property
    def plan(self) -> ImportPlan:
        """Return the plan."""
        return self.looked.plan

    def execute(self, engine: Callable[[], Engine]) -> _Done:
        """Write, copy and publish."""
        with Outputs(self.table) as new:
            work, rows = self._written(engine, new)
            if work.plan.nothing_to_do:
                return _Done(work.plan, rows, None)
            copies = {
                file.source: self.table.paths.data_part(
                    file.partition or "", self.table.ids.uuid7(self.table.clock.now_ms())
                )
                for file in work.plan.files
                if not file.in_place
            }
            new.add(*copies.values())
            self._copy(copies, rows.tasks)
            refuse_rewritten(self.table.store, self.prefix, work.looked.files)
            if self.looked.taken is not None:
                new.add(self.table.paths.imported(self.began.id))
                write_taken(self.table, self.began.id, work.looked.taken_now())
            # Late: a claim stays, also that of an import that fails.
            claims = self._claims()
            log_file = _Outcome(work, copies, rows, new.attempt).land(claims)
        if self.looked.taken is not None:
            write_visible(self.table, self.began.id)
        return _Done(work.plan, rows, log_file)

    def _written(self, engine: Callable[[], Engine], new: Outputs) -> tuple[_Work, WrittenRows]:
        """Write rows; return what is to be done without files that turned out not to fit.

        Without them columns may have other types: then the rows of the others are written again.

        Raises the error of all such files, unless they are to be left out.
        """
        work = self
        while work.plan.anew:
            rows = work._write(engine, new)
            faults = [
                Fault(each.key, raised_elsewhere(each.error_type, each.error, each.error_next_step))
                for each in rows.faults
            ]
            if not faults:
                return work, rows
            if not self.skip_bad:
                raise refusal(faults, self.plan.footers)
            # A value may fit its column once a file that widens it is left out.
            cast = {file.source for file in work.plan.anew if file.fitting.casts}
            own = [
                each
                for each in faults
                if isinstance(each.error, PartUnreadableError) or each.file not in cast
            ]
            written, work = work.plan.without(faults), work._without(own or faults)
            if written.makes == work.plan.makes:
                return work, rows
            new.delete(part.key for part in rows.parts)
        return work, WrittenRows()

    def _without(self, faults: Sequence[Fault]) -> _Work:
        out = (*self.out, *faults)
        plan = self.looked.plan_without({fault.file for fault in out})
        plan = replace(plan, bad=(*plan.bad, *out), footers=self.plan.footers)
        return replace(self, looked=replace(self.looked, plan=plan), out=out)

    def _claims(self) -> Claims | None:
        """Return the claim to continue the list of files, which one of several imports gets.

        Raises CommitConflictError: another import has continued it.
        """
        if self.looked.taken is None:
            return None
        began, key = self.began, f"{_LIST}{self.looked.number}"
        claims = Claims(self.table, key, began.writer, began.id)
        if claims.first(self.table.clock.now_ms()) is not None:
            raise self.overtaken()
        return claims

    def overtaken(self) -> CommitConflictError:
        """Return the error of an import while which another one has become visible."""
        return CommitConflictError(
            f"another import into table {self.table.settings.name} became visible meanwhile, "
            "maybe with the same files",
            next_step="run it again with --new: it takes what is left",
        )

    def _write(self, engine: Callable[[], Engine], new: Outputs) -> WrittenRows:
        """Read the files that cannot be parts as they are, and write their rows."""
        if engine is no_engine:
            first = self.plan.anew[0]
            raise UsageError(
                f"{first.source} has to be read and written anew: {first.why}",
                next_step="pass an engine that reads it",
            )
        table, began, here = self.table, self.began, Root.parse(self.table.settings.root)
        now = table.clock.now_ms()
        tasks = NewRowTasks(
            table=table,
            columns=self.plan.columns,
            place=f"{here.scheme}://{here.bucket.rstrip('/')}/",
            partition="",
            metadata=PartMetadata(
                table=table.paths.prefix,
                partition="",
                writer=began.writer,
                append=began.id,
                q=began.q,
                o=(now, now),
            ),
            every_fault=True,
        )
        files = [
            run
            for file in sorted(self.plan.anew, key=lambda each: each.partition or "")
            for run in runs_of(
                table,
                RowFile(file.source, file.bytes, partition=file.partition, fitting=file.fitting),
                file.row_groups,
            )
        ]

        copies = sum(not file.in_place for file in self.plan.files)

        def tell(done: int, total: int) -> None:
            self.tell(ImportProgress(files=copies, files_done=0, tasks=total, tasks_done=done))

        return tasks.write(engine(), files, new, tell, skip_bad=self.skip_bad)

    def _copy(self, copies: dict[str, str], tasks: int) -> None:
        store = self.table.store
        # Closed before anybody deletes the copies: what is under way would land after that.
        with closing(each(list(copies), lambda key: store.copy(key, copies[key]))) as copied:
            for done, _ in enumerate(copied, start=1):
                if done % _TELL_EVERY == 0 or done == len(copies):
                    self.tell(
                        ImportProgress(
                            files=len(copies), files_done=done, tasks=tasks, tasks_done=tasks
                        )
                    )


@dataclass(slots=True)
class _Outcome:
    """The rows of an import, which wait for the log file that makes them visible."""

    work: _Work
    copies: Mapping[str, str]
    rows: WrittenRows
    attempt: Attempt
    records: tuple[bytes, ...] = ()
    """Records of the claim."""

    def land(self, claims: Claims | None) -> str:
        """Publish; return the key of the log file. Raises as ``publish_append``."""
        clock = self.work.table.clock
        if claims is None:
            return self.publish(clock.now_ms())
        landed = claims.publish(self, clock.now_ms)
        if isinstance(landed, tuple):
            return landed[0]
        raise self.work.overtaken()

    def publish(self, t: int) -> str:
        """Make the rows visible by a log file of this time; return its key."""
        began = self.work.began
        key = self.work.table.paths.append_log(t, began.writer)
        publish_append(
            self.work.table,
            key,
            self._content(t),
            began.elapsed_ms,
            self.attempt,
            "import",
            begins=began.begins,
            stated=began.stated,
        )
        return key

    def _content(self, t: int) -> LogContent:
        began, plan = self.work.began, self.work.plan
        count = len(plan.files) + len(plan.anew)
        record = ImportedFrom(began.id, self.work.prefix, t, count, self.work.looked.number)
        # The first log file with columns has those that the settings declare.
        declared = {} if began.snapshot.schema else self.work.table.settings.columns
        markers = [_marker(f, self.copies.get(f.source, f.source), t, began.q) for f in plan.files]
        return LogContent(
            t=t,
            schema={**plan.own, **declared},
            markers=[*markers, *(marker_of(part, t=t, q=began.q) for part in self.rows.parts)],
            other=[record_line(record), *self.records],
        )


def _marker(file: PlannedFile, key: str, t: int, q: int) -> Marker:
    stats, order = stats_json(file.stats), sort_json(file.sorted_by)
    return Marker(p=key, b=file.bytes, t=t, n=file.rows, q=q, s=stats, k=order)
