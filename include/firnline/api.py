"""The Python interface: tables, and what is done with them, in this process.

Every name here is also one of the package: ``firnline.merge``. A table is given as a name of the
settings file, as a root URL, or as an open ``Table``; credentials come from the environment and the
usual chain of the store's cloud, unless the table was opened with others. Kernels run in this
process, as many at once as its cores and 60 % of its memory allow. Each function does what the
command of its name does, with the same guarantees, and returns its report; ``plan_…`` only plans.
What commits publishes the mirrors of the table, too; if that fails, it is a warning in the log.
All errors are ``FirnlineError``; a root without a table is a ``NoTableError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from firnline.arguments import typed
from firnline.errors import UsageError
from firnline.operations import registry
from firnline.operations.fields import checked
from firnline.operations.local import identity_here, local_engine
from firnline.operations.mirror.ended import however_it_ends
from firnline.operations.operation import About, OptionsT, PlanT, ReportT, Work, decided, untold
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    DropTableOptions,
    EndHoldOptions,
    EraseOptions,
    HoldOptions,
    ImportOptions,
    MergeOptions,
    MirrorOptions,
    RestoreOptions,
    RewriteOptions,
    TtlOptions,
    UpdateOptions,
    VerifyOptions,
    WhatIfOptions,
)
from firnline.operations.runner import Progress, TransactionReport
from firnline.paths import UNNAMED
from firnline.settings.load import find_table
from firnline.shown import ShownList
from firnline.state.health import require_table
from firnline.state.history import history as read_history
from firnline.store.access import StoreAccess
from firnline.table import Table
from firnline.table import open_table as open_with

if TYPE_CHECKING:
    from firnline.appends.append import AppendResult
    from firnline.log.txn_file import RunIdentity, TxnHeader
    from firnline.mirror.progress import MirrorProgress
    from firnline.operations.cleanup.plan import CleanupPlan
    from firnline.operations.cleanup.run import CleanupReport
    from firnline.operations.delete.plan import DeletePlan, ErasePlan
    from firnline.operations.delete.run import DeleteReport
    from firnline.operations.drop.expired import TtlPlan
    from firnline.operations.drop.plan import DropPlan
    from firnline.operations.drop.run import DropReport
    from firnline.operations.drop_table.plan import DropTablePlan
    from firnline.operations.drop_table.run import DropTableReport
    from firnline.operations.erase.run import EraseReport
    from firnline.operations.erasure.erasures import Erasures
    from firnline.operations.hold.plan import HoldPlan
    from firnline.operations.hold.run import HoldReport, HoldsView
    from firnline.operations.import_files.plan import ImportPlan
    from firnline.operations.import_files.progress import ImportProgress
    from firnline.operations.import_files.run import ImportReport
    from firnline.operations.inspect.prices import Prices
    from firnline.operations.merge.plan import MergePlan
    from firnline.operations.merge.run import MergeReport
    from firnline.operations.mirror.run import MirrorReport
    from firnline.operations.restore.plan import RestorePlan
    from firnline.operations.rewrite.plan import RewritePlan
    from firnline.operations.rewrite.prepare import PrepareReport
    from firnline.operations.rewrite.report import RewriteReport
    from firnline.operations.tables.run import ListedTable
    from firnline.operations.update.run import UpdateReport
    from firnline.operations.verify.run import VerifyReport
    from firnline.operations.what_if.run import WhatIf

OnProgress = Callable[[Progress], None]

_BY = "python"
"""Prefix of the run ids of these functions in the table's history."""


@typed
def open_table(
    table: Table | str,
    *,
    settings: Path | str | None = None,
    access: StoreAccess | None = None,
) -> Table:
    """Open a table; no request is sent.

    Args:
        table: a name of the settings file, a root URL, or an open table, which is returned.
        settings: the settings file; None: $FIRNLINE_TABLES, else include/tables.yaml.
        access: endpoint and credentials; None: the environment's.

    Raises:
        UsageError, SettingsError: there is no such table, or the file has mistakes.
        StoreAccessError: the access is invalid in itself.
    """
    if isinstance(table, Table):
        return table
    return open_with(
        find_table(table, settings), StoreAccess.from_env() if access is None else access
    )


@typed
def append(
    table: Table | str,
    rows: Any,  # noqa: ANN401 - see its description
    *,
    partition: str | None = None,
    key: str | None = None,
    mirror: bool = False,
    new_columns: bool = True,
    writer: str = UNNAMED,
) -> AppendResult:
    """Append rows or Parquet files, all of them or none, in one append.

    Args:
        table: see ``open_table``.
        rows: rows as for ``append_rows``; or files, as for ``append_files``: a path, or a list of
            paths.
        partition: as ``append_rows``.
        key: as ``append_rows``.
        mirror: as ``append_rows``.
        new_columns: as ``append_rows``.
        writer: as ``append_rows``.

    Raises:
        UsageError: as ``append_rows``.
        others: as ``append_rows`` and ``append_files``.
    """
    files = [rows] if isinstance(rows, str | Path) else rows
    given: dict[str, Any] = {
        "partition": partition,
        "key": key,
        "mirror": mirror,
        "new_columns": new_columns,
        "writer": writer,
    }
    if isinstance(files, list) and files and all(isinstance(each, str | Path) for each in files):
        return append_files(table, files, **given)
    return append_rows(table, rows, **given)


@typed
def append_rows(
    table: Table | str,
    rows: Any,  # noqa: ANN401 - see its description
    *,
    partition: str | None = None,
    key: str | None = None,
    mirror: bool = False,
    new_columns: bool = True,
    writer: str = UNNAMED,
) -> AppendResult:
    """Append rows, all of them or none, in one append.

    For a service that appends all the time, ``Appender`` gathers rows into larger appends.

    Requests: those of ``Appender.append``; with ``mirror`` those of
    ``operations.mirror.run.run_mirror`` besides, which are not among the result's own.

    Args:
        table: see ``open_table``.
        rows: a list of dictionaries, whose values are cast to the table's types and which are null
            where they do not name a column; a pyarrow table or record batch; or whatever offers
            itself as an Arrow stream: frames of Polars and pandas, relations of DuckDB.
        partition: path of all rows, only for a table without ``partition_by``.
        key: name of these rows, as batch-17, for a caller that may be started again: if an append
            with the same key was published within the table's ``append.once`` (7 days), nothing is
            added, whatever the rows are, and ``repeated`` of the result is True. Of several at the
            same time one adds its rows.
        mirror: publish the mirrors of the table at once, however long ago the last publication was
            (``mirror`` of the result). If that fails, the append stands: the failure is in the
            result and a warning in the log, and the next publication makes up for it.
        new_columns: False to refuse rows with columns, or fields of columns, that the table does
            not have.
        writer: who writes, as billing-service: in the key of the log file, and with the part in
            what `firnline parts` shows; at most 128 of the letters a-z and A-Z, digits, ``.`` and
            ``-``.

    Raises:
        UsageError: rows that cannot be the table's, or ``mirror`` for a table whose settings name
            no mirror; nothing was appended.
        others: as ``firnline.appends.append.Appender.append``.
    """
    import pyarrow as pa

    from firnline.appends.append import Appender
    from firnline.rows.source import not_rows

    opened = open_table(table)
    if mirror:
        _refuse_unmirrored(opened)
    is_arrow_or_list = isinstance(rows, list | pa.Table | pa.RecordBatch)
    if not is_arrow_or_list and not hasattr(rows, "__arrow_c_stream__"):
        raise not_rows(rows)
    appender = Appender(opened, writer=writer)
    result = appender.append(rows, partition, key=key, new_columns=new_columns)
    return _then_mirror(opened, result, mirror=mirror)


@typed
def append_files(
    table: Table | str,
    files: Sequence[Path | str],
    *,
    partition: str | None = None,
    key: str | None = None,
    mirror: bool = False,
    new_columns: bool = True,
    writer: str = UNNAMED,
) -> AppendResult:
    """Append Parquet files of this machine, all of their rows or none.

    Args:
        table: see ``open_table``.
        files: the files, each once.
        partition: as ``append_rows``.
        key: as ``append_rows``.
        mirror: as ``append_rows``.
        new_columns: as ``append_rows``.
        writer: as ``append_rows``.

    Raises:
        UsageError: as ``append_rows``.
        others: as ``firnline.appends.append.Appender.append_files``.
    """
    from firnline.appends.append import Appender

    opened = open_table(table)
    if mirror:
        _refuse_unmirrored(opened)
    paths = [Path(file) for file in files]
    appender = Appender(opened, writer=writer)
    result = appender.append_files(paths, partition, key=key, new_columns=new_columns)
    return _then_mirror(opened, result, mirror=mirror)


@typed
def merge(
    table: Table | str,
    options: MergeOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> MergeReport:
    """Merge small parts into large sorted ones; no row changes."""
    return _run(registry.MERGE, table, options or MergeOptions(), on_progress)


@typed
def plan_merge(table: Table | str, options: MergeOptions | None = None) -> MergePlan:
    """Plan a merge: its groups, and why the other parts are left alone."""
    return _plan(registry.MERGE, table, options or MergeOptions())


@typed
def delete(
    table: Table | str,
    options: DeleteOptions | str,
    *,
    on_progress: OnProgress | None = None,
) -> DeleteReport:
    """Delete the rows for which a condition is true; ``options`` may be that condition in SQL."""
    given = DeleteOptions(where=options) if isinstance(options, str) else options
    return _run(registry.DELETE, table, given, on_progress)


@typed
def plan_delete(table: Table | str, options: DeleteOptions | str) -> DeletePlan:
    """Plan a delete; ``options`` may be the condition in SQL."""
    given = DeleteOptions(where=options) if isinstance(options, str) else options
    return _plan(registry.DELETE, table, given)


@typed
def erase(
    table: Table | str, options: EraseOptions, *, on_progress: OnProgress | None = None
) -> EraseReport:
    """Erase keys from every part. It cannot be undone; nobody is asked."""
    return _run(registry.ERASE, table, options, on_progress)


@typed
def erasures(settings: Path | str | None = None, access: StoreAccess | None = None) -> Erasures:
    """Open the requests of people to be erased from all tables; no request is sent.

    Args:
        settings: the settings file; None: $FIRNLINE_TABLES, else include/tables.yaml.
        access: endpoint and credentials of the folder and of all tables; None: the environment's.

    Raises:
        UsageError, SettingsError: the settings name no folder for them, or have mistakes.
    """
    from firnline.operations.erasure.erasures import open_erasures

    return open_erasures(settings, access, _BY, erase)


@typed
def plan_erase(table: Table | str, options: EraseOptions) -> ErasePlan:
    """Plan an erase: the parts that may hold the keys."""
    return _plan(registry.ERASE, table, options)


@typed
def rewrite(
    table: Table | str, options: RewriteOptions, *, on_progress: OnProgress | None = None
) -> RewriteReport | PrepareReport:
    """Rewrite partitions by a filter or a query; with ``prepare`` commit nothing.

    What is prepared waits for ``firnline rewrite TABLE --commit ID`` or ``--discard ID``.
    """
    return _run(registry.REWRITE, table, options, on_progress)


@typed
def plan_rewrite(table: Table | str, options: RewriteOptions) -> RewritePlan:
    """Plan a rewrite."""
    return _plan(registry.REWRITE, table, options)


@typed
def update(
    table: Table | str, options: UpdateOptions, *, on_progress: OnProgress | None = None
) -> UpdateReport | PrepareReport:
    """Give rows new values where a condition is true; with ``prepare`` commit nothing.

    What is prepared waits for ``firnline rewrite TABLE --commit ID`` or ``--discard ID``.
    """
    return _run(registry.UPDATE, table, options, on_progress)


@typed
def plan_update(table: Table | str, options: UpdateOptions) -> RewritePlan:
    """Plan an update: the parts that may hold such rows."""
    return _plan(registry.UPDATE, table, options)


@typed
def drop(table: Table | str, options: DropOptions) -> DropReport:
    """Drop partitions, without reading them."""
    return _run(registry.DROP, table, options)


@typed
def plan_drop(table: Table | str, options: DropOptions) -> DropPlan:
    """Plan a drop of partitions."""
    return _plan(registry.DROP, table, options)


@typed
def drop_table(table: Table | str, options: DropTableOptions) -> DropTableReport:
    """Drop a whole table, or delete every object of one that was dropped long enough ago.

    ``options.name`` has to be the exact name of the table. The first call is one transaction, which
    a restore undoes; what a later one deletes is gone.
    """
    return _run(registry.DROP_TABLE, table, options)


@typed
def plan_drop_table(table: Table | str, options: DropTableOptions | None = None) -> DropTablePlan:
    """Plan the next step of a drop of a table: to drop it, to wait, or to delete its objects."""
    return _plan(registry.DROP_TABLE, table, options or DropTableOptions())


@typed
def list_tables(
    url: str,
    settings: Path | str | None = None,
    *,
    depth: int = 3,
    shallow: bool = False,
    access: StoreAccess | None = None,
) -> list[ListedTable]:
    """List the tables below a bucket or folder, with their names in the settings and their health.

    Requests: as ``operations.tables.run.list_below``.

    Args:
        url: of the bucket, prefix or folder: ``s3://lake``, ``file:///data``.
        settings: the settings file; None: that of commands, if there is one.
        depth: levels of folders below it.
        shallow: only list, and read no table's log.
        access: endpoint and credentials; None: the environment's.

    Returns:
        A record for each table and for each that the settings name there, by their roots. One that
        cannot be read has the ``state`` unreadable and a ``reason``.

    Raises:
        UsageError, SettingsError: ``url`` or ``depth`` is none, or the file has mistakes.
        StoreError: the place cannot be listed.
    """
    from firnline.operations.tables.run import known_settings, list_below

    known = known_settings(settings)
    return ShownList(list_below(url, known, access, depth=depth, shallow=shallow).tables)


@typed
def ttl(table: Table | str, options: TtlOptions | None = None) -> DropReport:
    """Drop what is older than the table's ``ttl.keep``."""
    return _run(registry.TTL, table, options or TtlOptions())


@typed
def plan_ttl(table: Table | str, options: TtlOptions | None = None) -> TtlPlan:
    """Plan what a TTL would drop."""
    return _plan(registry.TTL, table, options or TtlOptions())


@typed
def hold(table: Table | str, options: HoldOptions) -> HoldReport:
    """Put a legal hold: rows that nothing removes until a person ends it."""
    return _run(registry.HOLD, table, options)


@typed
def plan_hold(table: Table | str, options: HoldOptions) -> HoldPlan:
    """Plan a legal hold: the rows, and the parts that may have some."""
    return _plan(registry.HOLD, table, options)


@typed
def plan_end_hold(table: Table | str, options: EndHoldOptions) -> HoldPlan:
    """Plan the end of a legal hold."""
    return _plan(registry.END_HOLD, table, options)


@typed
def end_hold(table: Table | str, options: EndHoldOptions) -> HoldReport:
    """End a legal hold."""
    return _run(registry.END_HOLD, table, options)


@typed
def holds(table: Table | str) -> HoldsView:
    """Return the legal holds in force, and what they cover.

    Requests: those of ``take_base``, and 1 LIST for each 1,000 objects of ``_data/`` where a dead
    part may have rows of a hold.
    """
    from firnline.operations.hold.run import list_holds

    return list_holds(open_table(table))


@typed
def restore(table: Table | str, options: RestoreOptions) -> TransactionReport:
    """Undo the transactions after a given one."""
    return _run(registry.RESTORE, table, options)


@typed
def plan_restore(table: Table | str, options: RestoreOptions) -> RestorePlan:
    """Plan a restore."""
    return _plan(registry.RESTORE, table, options)


@typed
def import_files(
    table: Table | str,
    options: ImportOptions | str,
    *,
    on_progress: Callable[[ImportProgress], None] | None = None,
) -> ImportReport:
    """Import a folder of Parquet files; ``options`` may be its URL.

    The table need not exist. With ``new=True`` it takes the files that no import has taken so far,
    and may be called again and again.
    """
    from firnline.operations.import_files.run import run_import

    given = ImportOptions(source=options) if isinstance(options, str) else options
    opened, given = open_table(table), _to_run(given, ImportOptions, "plan_import_files")
    return _then_publish(
        opened,
        lambda _: run_import(
            Work(opened, engine=lambda: local_engine(opened), tell=on_progress or untold), given
        ),
    )


@typed
def plan_import_files(table: Table | str, options: ImportOptions | str) -> ImportPlan:
    """Plan an import: every footer is read; ``options`` may be the URL of the folder."""
    from firnline.operations.import_files.run import preview

    given = ImportOptions(source=options) if isinstance(options, str) else options
    return preview(open_table(table), checked(given, ImportOptions))


@typed
def cleanup(table: Table | str, options: CleanupOptions | None = None) -> CleanupReport:
    """Delete what was replaced longer ago than the grace."""
    return _run(registry.CLEANUP, table, options or CleanupOptions())


@typed
def plan_cleanup(table: Table | str, options: CleanupOptions | None = None) -> CleanupPlan:
    """Plan a clean-up."""
    return _plan(registry.CLEANUP, table, options or CleanupOptions())


@typed
def publish_mirrors(
    table: Table | str, *, on_progress: Callable[[MirrorProgress], None] | None = None
) -> MirrorReport:
    """Publish the newest state in the mirrors of a table, as ``firnline mirror`` does."""
    from firnline.mirror.progress import silent

    opened = open_table(table)
    run = identity_here(opened, _BY)
    work = Work(opened, run, tell=on_progress or silent)
    return registry.MIRROR.load().run(work, MirrorOptions())


@typed
def verify(table: Table | str, options: VerifyOptions | None = None) -> VerifyReport:
    """Compare log, transactions and objects; changes nothing.

    Findings are in the report, and are no error here.
    """
    from firnline.operations.verify.run import run_verify

    return run_verify(Work(open_table(table)), checked(options or VerifyOptions(), VerifyOptions))


@typed
def history(table: Table | str, limit: int = 20) -> list[TxnHeader]:
    """Return the newest transactions, the newest first; a notebook shows them as one table.

    Requests: 1 LIST, and a ranged GET each; another LIST if there is none.

    Raises UsageError: ``limit`` is below 1; NoTableError: there is no table; errors of
    ``open_table`` and of the store.
    """
    if limit < 1:
        raise UsageError(f"limit is {limit}, and the least is 1", next_step="give a larger limit")
    opened = open_table(table)
    headers = read_history(opened, limit)
    if not headers:
        require_table(opened)
    return ShownList(headers)


@typed
def what_if(
    table: Table | str,
    settings: Mapping[str, object] | None = None,
    options: WhatIfOptions | None = None,
    *,
    prices: Prices | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Play the arrivals that a table has recorded with other settings; nothing is written.

    Requests: see ``operations.what_if.run.what_if``. Memory: about 1 KB for each part played.

    Args:
        table: see ``open_table``.
        settings: dotted name -> value, ``{"merge.target_size": "1GiB"}``, of one variant; besides
            those of ``options``.
        options: what else is asked, such as ``WhatIfOptions(suggest=True)``.
        prices: of requests; None: those of S3 Standard in us-east-1.
        on_progress: called with the parts played and those to play, of all plays together.

    Raises:
        UsageError: there is nothing to play, nothing says when merges run, or ``settings`` are none
            of a table.
        others: as ``open_table`` and ``operations.what_if.run.what_if``.
    """
    from firnline.operations.inspect.prices import Prices
    from firnline.operations.what_if.run import what_if as ask
    from firnline.settings.load import find_with_file

    opened = open_table(table)
    given = checked(options or WhatIfOptions(), WhatIfOptions)
    given = msgspec.structs.replace(given, set={**given.set, **(settings or {})})
    fleet = find_with_file(table if isinstance(table, str) else opened.settings.root).fleet
    return ask(opened, fleet, given, prices or Prices(), on_progress)


def _refuse_unmirrored(table: Table) -> None:
    from firnline.operations.mirror.after import refuse_unmirrored

    refuse_unmirrored(table.settings, "mirror=True")


def _then_publish(table: Table, act: Callable[[RunIdentity], ReportT]) -> ReportT:
    """Do what may commit, publish the mirrors of the table, and return the report.

    What was committed stands, whatever comes of the publication: its failure is a warning in the
    log. What was committed before an error is published, too.
    """
    run, puts = identity_here(table, _BY), table.store.counters.put

    def publish() -> None:
        from firnline.operations.mirror.after import publish_committed, warn

        outcome = publish_committed(table, run, puts)
        if outcome is not None:
            warn(outcome)

    with however_it_ends(publish):
        return act(run)


def _then_mirror(table: Table, result: AppendResult, *, mirror: bool) -> AppendResult:
    """Publish after an append if that was asked for; the append stands, whatever comes of it."""
    if not mirror:
        return result
    from firnline.operations.mirror.after import after_append

    return after_append(table, result, identity_here(table, _BY))


def _run(
    about: About[OptionsT, PlanT, ReportT],
    table: Table | str,
    options: OptionsT,
    on_progress: Callable[[Any], None] | None = None,
) -> ReportT:
    """Carry out an operation on a table that is there, and publish what it has committed."""
    opened = open_table(table)
    given = _to_run(options, about.options, f"plan_{about.name}")
    engine, tell = partial(local_engine, opened), on_progress or untold
    operation = about.load()

    def act(run: RunIdentity) -> ReportT:
        return operation.run(Work(opened, run, engine, tell, consent=decided), given)

    return _then_publish(opened, act)


def _plan(about: About[OptionsT, PlanT, ReportT], table: Table | str, options: OptionsT) -> PlanT:
    """Plan an operation on a table that is there."""
    return about.load().plan(open_table(table), options)


def _to_run(options: object, kind: type[OptionsT], planner: str) -> OptionsT:
    """Return checked options; refuse those that ask for a plan: a run would carry them out."""
    given = checked(options, kind)
    if getattr(given, "dry_run", False):
        raise UsageError(
            "the options ask for a dry run, and this function carries them out",
            next_step=f"use firnline.{planner}, which changes nothing",
        )
    return given
