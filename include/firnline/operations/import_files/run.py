"""Import: a folder of Parquet files becomes a table or a part of it. An append without rows.

Files are copied by the store itself, those that lie under ``_data/`` already are taken where they
are, and the folder is never written to. Files that span partitions are read and written by an
engine, if that is asked for. One log file at the end makes all of it visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from firnline.append.claims import Claims
from firnline.commit import append_log as birth
from firnline.commit.append_log import publish_append
from firnline.commit.base import take_base
from firnline.commit.outputs import Outputs
from firnline.errors import CommitConflictError, UsageError
from firnline.kernel.engine import Engine
from firnline.log.imports import (
    ImportedFrom,
    last_listed,
    overlapping,
    record_line,
    records_of,
)
from firnline.log.records import LogContent, Marker, marker_of, sort_json, stats_json
from firnline.operations.import_files.listing import (
    Listing,
    is_named_parquet,
    refuse_inside_of_other,
    sort_out,
)
from firnline.operations.import_files.options import ImportOptions
from firnline.operations.import_files.path_columns import parse_types
from firnline.operations.import_files.plan import (
    Folder,
    ImportPlan,
    PlannedFile,
    plan_import,
)
from firnline.operations.import_files.taken import (
    Taken,
    read_taken,
    refuse_unlisted,
    write_taken,
)
from firnline.operations.new_rows import NewRowTasks, RowFile, WrittenRows, runs_of
from firnline.operations.runner import Report, RunMetrics
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.parquet.part import PartMetadata
from firnline.paths import Root
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.store.create import Attempt
from firnline.store.transfer import each
from firnline.table import Table
from firnline.units import counted

_TELL_EVERY = 10
_LIST = "imported files "
"""Before the number of a list: the key that an import claims which continues the one before."""
_SHOWN = 20
"""Objects that an error names at most."""


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an import: first the footers, then the tasks, then the copies."""

    footers: int = 0
    """Files to look at; 0 once they were."""
    footers_done: int = 0
    files: int = 0
    """Files to copy."""
    files_done: int = 0
    tasks: int = 0
    """Tasks that read and write rows."""
    tasks_done: int = 0

    @property
    def text(self) -> str:
        """Return it in words."""
        if self.footers:
            return f"{self.footers_done:,} of {counted(self.footers, 'file')} looked at"
        tasks = f"{self.tasks_done:,} of {counted(self.tasks, 'task')} done, " if self.tasks else ""
        return f"{tasks}{self.files_done:,} of {counted(self.files, 'file')} copied"


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

    @property
    def writer(self) -> str:
        """Name in the log file's key, and in the footers of parts that are written."""
        return f"import-{self.id}"

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
    prefix, began = _prefix(table, options.source), _begin(table)
    tell = on_progress or (lambda _: None)
    return _look(began.table, began.snapshot, options, prefix, tell).plan


def run_import(
    table: Table,
    options: ImportOptions,
    on_progress: Callable[[ImportProgress], None] | None = None,
    *,
    engine: Callable[[], Engine] | None = None,
) -> ImportReport:
    """Import a folder.

    Requests: those of ``take_base``, a LIST per 1,000 objects of the folder, a ranged GET per
    file, a copy per file that does not lie in place, 1 PUT; where it begins the table 1 LIST and
    1 PUT more. Unless the files lie in place, 2 PUT for the claim and the list of files, 1 GET of
    the list so far, and 4 LIST for each of four folders above. Of files that are read no copy, and
    those of ``NewRowTasks.write``.

    Args:
        table: the table; it need not exist.
        options: what to import.
        on_progress: called after every task, and every ten footers and copies.
        engine: called once there is a file to split.

    Raises:
        UsageError: no such folder, another bucket, imported before, or a file whose partition
            cannot be told; the last three name it.
        PartUnreadableError, PartSchemaError, SchemaConflictError: a file that does not fit.
        ScratchFullError, KernelError: a task failed; see ``NewRowTasks.write``.
        AppendExpiredError: it took longer than ``append.ttl``.
        CommitConflictError: another import became visible meanwhile.
        CommitUnknownError: nobody can say whether it is visible; the copies stay.

    After any error but the last one the table is as it was and no copy stays. Of an interrupt
    ``commit.outputs`` says what stays.
    """
    metrics = RunMetrics(table)
    prefix = _prefix(table, options.source)
    began = _begin(table)
    table = began.table
    tell = on_progress or (lambda _: None)
    looked = _look(table, began.snapshot, options, prefix, tell)
    plan = looked.plan
    log_file, written, partitions = None, 0, 0
    if not options.dry_run and not plan.nothing_to_do:
        work = _Work(table, looked, prefix, began, tell)
        log_file, rows = work.execute(engine)
        written = len(rows.parts)
        of_files = {file.partition for file in plan.files}
        partitions = len(of_files | {table.paths.parse_part(p.key).partition for p in rows.parts})
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


def _begin(table: Table) -> _Began:
    base = take_base(table, may_hold_objects=True)
    begins = birth.begins(base.table, base.seq, born=base.born)
    made = table.ids.uuid7(table.clock.now_ms())
    return _Began(
        made, base.snapshot, base.began_ms, base.table, begins, base.properties is not None
    )


def _prefix(table: Table, source: str) -> str:
    """Return the folder's key prefix in the table's store, ending in ``/``. Raises UsageError."""
    here, there = Root.parse(table.settings.root), Root.parse(source)
    if here.scheme == "file":
        # Keys are relative to the table's parent folder.
        whole, parent = f"{there.bucket.rstrip('/')}/{there.prefix}", here.bucket.rstrip("/")
        inside = there.scheme == "file" and whole.startswith(f"{parent}/")
        prefix = whole.removeprefix(f"{parent}/")
        where = f"below file://{here.bucket}"
    else:
        inside = (there.scheme, there.bucket) == (here.scheme, here.bucket)
        prefix, where = there.prefix, f"in {here.scheme}://{here.bucket}"
    if not inside:
        raise UsageError(
            f"{source} is not {where}, where table {table.settings.name} lies: no server copies "
            "from one to the other",
            next_step="copy the folder there first, or take its files with "
            "`firnline append TABLE FILE`",
        )
    folder = f"{prefix}/" if prefix else ""
    own = table.paths.data_dir.removesuffix("_data/")
    if (own.startswith(folder) or folder.startswith(own)) and not folder.startswith(
        table.paths.data_dir
    ):
        raise UsageError(
            f"{source} is the folder of table {table.settings.name} itself or holds it",
            next_step=f"name {table.paths.data_dir} to take what lies there into the table, or "
            "another folder",
        )
    if "_data" in folder.split("/") and not folder.startswith(own):
        raise UsageError(
            f"{source} is the data folder of another table, which also holds parts that were "
            "replaced",
            next_step="write that table's current rows to Parquet and import those",
        )
    return folder


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a look at the folder has shown."""

    plan: ImportPlan
    found: Mapping[str, ObjectMeta]
    """Files of the folder that are to be taken, by key."""
    taken: Taken | None
    """What imports have taken so far; None: no list is kept, of files in place for example."""
    number: int
    """Of the list that this import writes; 0: none."""

    def taken_now(self) -> Taken:
        """Return the list with the files of this import."""
        assert self.taken is not None
        plan = self.plan
        keys = (*(f.source for f in (*plan.files, *plan.anew)), *plan.empty)
        return self.taken.plus(self.found[key] for key in keys)


def _look(
    table: Table,
    snapshot: Snapshot,
    options: ImportOptions,
    prefix: str,
    tell: Callable[[ImportProgress], None],
) -> _Looked:
    folder = Folder(
        settings=table.settings,
        paths=table.paths,
        source=prefix,
        split=options.split,
        skip_bad=options.skip_bad,
        path_columns=not options.no_path_columns,
        path_types=parse_types(options.path_types),
        again_and_again=options.new,
    )
    in_place = prefix.startswith(snapshot.paths.data_dir)  # such files are known by their keys
    taken, number = (None, 0) if in_place else _taken_before(table, snapshot, options, prefix)
    if not in_place:
        refuse_inside_of_other(table.store, prefix)
    listing = sort_out(table.store.list(prefix), prefix, options.exclude)
    # A folder from which everything was moved away is none that somebody has mistyped.
    if not listing.files and not (options.new and overlapping(records_of(snapshot.other), prefix)):
        raise _no_files(listing, options)
    new = [meta for meta in listing.files if meta.key not in snapshot.parts]
    changed: list[str] = []
    if taken is not None and options.new:
        new, changed = taken.new_of(new)
    # A table without columns begins with those that its settings declare.
    columns = dict(snapshot.schema) or dict(table.settings.columns)
    footers, strangers = _without_strangers(_footers(table, new, columns, tell))
    left_out = (*listing.left_out, *strangers)
    if options.strict and (left_out or changed):
        raise _left_out([*left_out, *changed], options)
    plan = plan_import(
        folder,
        footers,
        columns,
        ignored=left_out,
        already=len(listing.files) - len(new) - len(changed),
        changed=changed,
    )
    return _Looked(plan, {meta.key: meta for meta in new}, taken, number)


def _taken_before(
    table: Table, snapshot: Snapshot, options: ImportOptions, prefix: str
) -> tuple[Taken | None, int]:
    """Return what imports have taken so far, and the number of the list that continues it.

    Raises UsageError: the folder was imported before, and its new files are not asked for, or
    nobody knows which these are.
    """
    records, name = records_of(snapshot.other), table.settings.name
    if options.new:
        refuse_unlisted(records, prefix, name)
    elif not options.again:
        _refuse_imported(records, prefix)
    if table.settings.locking == "fenced":
        last = last_listed(records)
        return read_taken(table, last), (last.number if last else 0) + 1
    if options.new:
        raise UsageError(
            f"table {name} has locking: {table.settings.locking}: its store ignores create-only "
            "puts, and two imports could take the same files",
            next_step="import folders one by one, without --new",
        )
    return None, 0


def _left_out(keys: Sequence[str], options: ImportOptions) -> UsageError:
    return UsageError(
        f"{counted(len(keys), 'object')} of {options.source} would be left out: "
        f"{', '.join(keys[:_SHOWN])}{', …' if len(keys) > _SHOWN else ''}",
        next_step="import without --strict, or move them away",
    )


def _no_files(listing: Listing, options: ImportOptions) -> UsageError:
    found = len(listing.left_out)
    are = "is" if found == 1 else "are"
    beside = f"; {counted(found, 'object')} there {are} none" if found else ""
    return UsageError(
        f"no Parquet file lies under {options.source}{beside}",
        next_step="correct the address; files end in .parquet, .parq or .pq, or have no ending",
    )


def _without_strangers(footers: Sequence[FooterFacts]) -> tuple[list[FooterFacts], list[str]]:
    """Return the footers of Parquet files, and the keys of files without an ending that are not."""
    strangers = {
        facts.key
        for facts in footers
        if facts.error and not is_named_parquet(facts.key) and "not a Parquet file" in facts.error
    }
    return [facts for facts in footers if facts.key not in strangers], sorted(strangers)


def _footers(
    table: Table,
    files: Sequence[ObjectMeta],
    known: dict[str, str],
    tell: Callable[[ImportProgress], None],
) -> list[FooterFacts]:
    stats = table.settings.statistics_columns
    wanted = FooterWanted(columns=known, stats=stats, row_groups=True, form=True)
    tasks = [FooterTask(meta.key, meta.size) for meta in files]
    found = []
    for facts in many_facts(table.store, tasks, wanted):
        found.append(facts)
        if len(found) % _TELL_EVERY == 0 or len(found) == len(tasks):
            tell(ImportProgress(footers=len(tasks), footers_done=len(found)))
    return found


def _refuse_imported(records: Sequence[ImportedFrom], prefix: str) -> None:
    for record in overlapping(records, prefix):
        raise UsageError(
            f"{record.source} was imported into this table before "
            f"({counted(record.files, 'file')})",
            next_step="add --new to take the files that were not, or --again to have all rows "
            "twice",
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """What is done once the plan stands."""

    table: Table
    looked: _Looked
    prefix: str
    began: _Began
    tell: Callable[[ImportProgress], None]

    @property
    def plan(self) -> ImportPlan:
        """Return the plan."""
        return self.looked.plan

    def execute(self, engine: Callable[[], Engine] | None) -> tuple[str, WrittenRows]:
        """Write, copy and publish; return the key of the log file, and what was written."""
        copies: dict[str, str] = {
            file.source: self.table.paths.data_part(file.partition or "", self._name())
            for file in self.plan.files
            if not file.in_place
        }
        with Outputs(self.table) as new:
            rows = self._write(engine, new, len(copies)) if self.plan.anew else WrittenRows()
            new.add(*copies.values())
            self._copy(copies, rows.tasks)
            if self.looked.taken is not None:
                new.add(self.table.paths.imported(self.began.id))
                write_taken(self.table, self.began.id, self.looked.taken_now())
            # Late: a claim stays, also that of an import that fails.
            claims = self._claims()
            outcome = _Outcome(self, copies, rows, new.attempt)
            return outcome.land(claims), rows

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

    def _name(self) -> str:
        return self.table.ids.uuid7(self.table.clock.now_ms())

    def _write(self, engine: Callable[[], Engine] | None, new: Outputs, copies: int) -> WrittenRows:
        """Read the files that cannot be parts as they are, and write their rows."""
        if engine is None:
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
        )
        files = [
            run
            for file in sorted(self.plan.anew, key=lambda each: each.partition or "")
            for run in runs_of(table, _row_file(file), file.row_groups)
        ]

        def tell(done: int, total: int) -> None:
            self.tell(ImportProgress(files=copies, files_done=0, tasks=total, tasks_done=done))

        return tasks.write(engine(), files, new, tell)

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

    def _declared(self) -> dict[str, str]:
        """Return the columns that the settings declare, for the first log file with columns."""
        known = self.work.began.snapshot.schema
        return {} if known else dict(self.work.table.settings.columns)

    def _content(self, t: int) -> LogContent:
        began, plan = self.work.began, self.work.plan
        count = len(plan.files) + len(plan.anew)
        record = ImportedFrom(began.id, self.work.prefix, t, count, self.work.looked.number)
        markers = [_marker(f, self.copies.get(f.source, f.source), t, began.q) for f in plan.files]
        return LogContent(
            t=t,
            schema={**plan.own, **self._declared()},
            markers=[*markers, *(marker_of(part, t=t, q=began.q) for part in self.rows.parts)],
            other=[record_line(record), *self.records],
        )


def _row_file(file: PlannedFile) -> RowFile:
    return RowFile(file.source, file.bytes, partition=file.partition, fitting=file.fitting)


def _marker(file: PlannedFile, key: str, t: int, q: int) -> Marker:
    stats, order = stats_json(file.stats), sort_json(file.sorted_by)
    return Marker(p=key, b=file.bytes, t=t, n=file.rows, q=q, s=stats, k=order)
