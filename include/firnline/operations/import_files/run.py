"""Import: a folder of Parquet files becomes a table or a part of it. An append without rows.

Files are copied by the store itself, those that lie under ``_data/`` already are taken where they
are, and the folder is never written to. One log file at the end makes all of it visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import msgspec

from firnline.commit import append_log as birth
from firnline.commit.append_log import publish_append
from firnline.commit.base import take_base
from firnline.commit.outputs import Outputs
from firnline.errors import UsageError
from firnline.log.records import LogContent, Marker, stats_json
from firnline.operations.import_files.plan import (
    ImportedFrom,
    ImportPlan,
    PlannedFile,
    plan_import,
    record_line,
    records_of,
    sort_out,
)
from firnline.operations.options import ImportOptions
from firnline.operations.runner import Report, RunMetrics
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.paths import Root
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.store.create import Attempt
from firnline.store.transfer import each
from firnline.table import Table
from firnline.types.schema import SchemaUnion

_TELL_EVERY = 100


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of an import."""

    files: int
    files_done: int


class ImportReport(Report, frozen=True, kw_only=True):
    """Result of an import."""

    table: str
    source: str
    dry_run: bool
    log_file: str | None
    """Key of the log file that made it visible."""
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

    @property
    def q(self) -> int:
        """Newest transaction of the snapshot and of the history."""
        return self.snapshot.seq


def preview(table: Table, options: ImportOptions) -> ImportPlan:
    """Look at every footer and plan; nothing is written but an unpublished transaction.

    Requests: those of ``run_import`` but the copies and the log file.
    """
    prefix, began = _prefix(table, options.source), _begin(table)
    return _plan(began.table, began.snapshot, options, prefix)


def run_import(
    table: Table,
    options: ImportOptions,
    on_progress: Callable[[ImportProgress], None] | None = None,
) -> ImportReport:
    """Import a folder.

    Requests: those of ``take_base``, a LIST per 1,000 objects of the folder, a ranged GET per
    file, a copy per file that does not lie in place, 1 PUT; where it begins the table 1 LIST and
    1 PUT more.

    Args:
        table: the table; it need not exist.
        options: what to import.
        on_progress: called every hundred copies.

    Raises:
        UsageError: no such folder, another bucket, imported before, or a file whose partition
            cannot be told; the last three name it.
        PartUnreadableError, PartSchemaError, SchemaConflictError: a file that does not fit.
        AppendExpiredError: it took longer than ``append.ttl``.
        CommitUnknownError: nobody can say whether it is visible; the copies stay.

    After any error but the last one the table is as it was and no copy stays. Of an interrupt
    ``commit.outputs`` says what stays.
    """
    metrics = RunMetrics(table)
    prefix = _prefix(table, options.source)
    began = _begin(table)
    table = began.table
    plan = _plan(table, began.snapshot, options, prefix)
    log_file = None
    if not options.dry_run and not plan.nothing_to_do:
        log_file = _execute(table, plan, prefix, began, on_progress or (lambda _: None))
    return ImportReport(
        table=table.settings.name,
        source=options.source,
        dry_run=options.dry_run,
        log_file=log_file,
        plan=plan.to_json(),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def _begin(table: Table) -> _Began:
    base = take_base(table, may_hold_objects=True)
    begins = birth.begins(base.table, base.seq, born=base.born)
    made = table.ids.uuid7(table.clock.now_ms())
    return _Began(made, base.snapshot, base.began_ms, base.table, begins)


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
            next_step="copy the folder there first, or `firnline append` its files",
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


def _plan(table: Table, snapshot: Snapshot, options: ImportOptions, prefix: str) -> ImportPlan:
    if not options.again:
        _refuse_imported(snapshot, prefix)
    files, ignored = sort_out(table.store.list(prefix), prefix)
    if not files:
        raise UsageError(
            f"no Parquet file lies under {options.source}",
            next_step="correct the address; files end in .parquet, .parq or .pq",
        )
    new = [meta for meta in files if meta.key not in snapshot.parts]
    known = SchemaUnion()
    known.add("the table", snapshot.schema)
    return plan_import(
        table.settings,
        table.paths,
        prefix,
        _footers(table, new, known),
        known,
        ignored=ignored,
        already=len(files) - len(new),
    )


def _footers(table: Table, files: Sequence[ObjectMeta], known: SchemaUnion) -> list[FooterFacts]:
    wanted = FooterWanted(columns=known.columns, stats=table.settings.statistics_columns)
    tasks = [FooterTask(meta.key, meta.size) for meta in files]
    return list(many_facts(table.store, tasks, wanted))


def _refuse_imported(snapshot: Snapshot, prefix: str) -> None:
    if prefix.startswith(snapshot.paths.data_dir):
        return  # files in place are known by their keys
    for record in records_of(snapshot.other):
        if record.source.startswith(prefix) or prefix.startswith(record.source):
            raise UsageError(
                f"{record.source} was imported into this table before ({record.files} files)",
                next_step="import another folder, or add --again to have its rows twice",
            )


def _execute(
    table: Table,
    plan: ImportPlan,
    prefix: str,
    began: _Began,
    tell: Callable[[ImportProgress], None],
) -> str:
    copies: dict[str, str] = {
        file.source: table.paths.data_part(file.partition, table.ids.uuid7(table.clock.now_ms()))
        for file in plan.files
        if not file.in_place
    }
    with Outputs(table, copies.values()) as new:
        # Closed before anybody deletes the copies: what is under way would land after that.
        with closing(each(list(copies), lambda key: table.store.copy(key, copies[key]))) as copied:
            for done, _ in enumerate(copied, start=1):
                if done % _TELL_EVERY == 0:
                    tell(ImportProgress(files=len(copies), files_done=done))
        return _publish(table, plan, copies, prefix, began, new.attempt)


def _publish(
    table: Table,
    plan: ImportPlan,
    copies: dict[str, str],
    prefix: str,
    began: _Began,
    attempt: Attempt,
) -> str:
    now = table.clock.now_ms()
    key = table.paths.append_log(now, f"import-{began.id}")
    record = ImportedFrom(began.id, prefix, now, len(plan.files))
    content = LogContent(
        t=now,
        schema=plan.own,
        markers=[_marker(f, copies.get(f.source, f.source), now, began.q) for f in plan.files],
        other=[record_line(record)],
    )
    publish_append(table, key, content, began.elapsed_ms, attempt, "import", begins=began.begins)
    return key


def _marker(file: PlannedFile, key: str, t: int, q: int) -> Marker:
    return Marker(p=key, b=file.bytes, t=t, n=file.rows, q=q, s=stats_json(file.stats))
