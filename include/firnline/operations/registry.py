"""The operations that DAGs run, each described once."""

from __future__ import annotations

from typing import Any

from firnline.operations.import_files.options import ImportFoldersOptions
from firnline.operations.operation import Loaded, Operation, without_engine, without_progress
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    DropOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SweepOptions,
    TtlOptions,
    VerifyOptions,
)


def _merge() -> Loaded[MergeOptions]:
    from firnline.operations.merge.run import preview, run_merge

    return Loaded(preview, run_merge)


def _delete() -> Loaded[DeleteOptions]:
    from firnline.operations.delete.run import preview, run_delete

    return Loaded(preview, run_delete)


def _replace() -> Loaded[ReplaceOptions]:
    from firnline.operations.replace.run import preview, run_replace

    return Loaded(preview, run_replace)


def _import() -> Loaded[ImportFoldersOptions]:
    from firnline.operations.import_files.folders import import_folders, preview

    return Loaded(preview, import_folders)


def _rewrite() -> Loaded[RewriteOptions]:
    from firnline.operations.rewrite.prepare import run_either
    from firnline.operations.rewrite.run import preview

    return Loaded(preview, run_either)


def _erase() -> Loaded[EraseOptions]:
    from firnline.operations.erase.run import preview, run_erase

    return Loaded(preview, run_erase)


def _drop() -> Loaded[DropOptions]:
    from firnline.operations.drop.run import preview, run_drop

    return Loaded(preview, without_progress(run_drop))


def _ttl() -> Loaded[TtlOptions]:
    from firnline.operations.ttl.run import preview, run_ttl

    return Loaded(preview, without_progress(run_ttl))


def _restore() -> Loaded[RestoreOptions]:
    from firnline.operations.restore.run import preview, run_restore

    return Loaded(preview, without_engine(run_restore))


def _cleanup() -> Loaded[CleanupOptions]:
    from firnline.operations.cleanup.run import preview, run_cleanup

    return Loaded(preview, without_engine(run_cleanup))


def _sweep() -> Loaded[SweepOptions]:
    from firnline.operations.sweep.run import preview, run_sweep

    return Loaded(preview, without_engine(run_sweep))


def _rebuild() -> Loaded[RebuildOptions]:
    from firnline.operations.rebuild.run import preview, run_rebuild

    return Loaded(preview, without_engine(run_rebuild))


def _verify() -> Loaded[VerifyOptions]:
    from firnline.operations.verify.run import run_verify

    # It leaves nothing in the history.
    return Loaded(
        None,
        without_engine(lambda table, options, _, tell: run_verify(table, options, None, tell)),
    )


MERGE = Operation(
    name="merge",
    command="merge",
    dag="merge",
    noun="a merge",
    title="Merge small parts of one table into large sorted ones",
    lock="merge",
    shares_lock=True,
    options=MergeOptions,
    load=_merge,
    job=True,
    keeps_rows=True,
)
DELETE = Operation(
    name="delete",
    command="delete",
    dag="delete_where",
    noun="a delete",
    title="Delete the rows of one table for which a condition is true",
    lock="merge",
    options=DeleteOptions,
    load=_delete,
    job=True,
    destroys=True,
    once=True,
    one_transaction="delete",
)
REPLACE = Operation(
    name="replace",
    command="replace",
    dag="replace",
    noun="a replace",
    title="Replace an interval of one table by staged rows, or by nothing",
    lock="merge",
    options=ReplaceOptions,
    load=_replace,
    job=True,
    destroys=True,
    once=True,
    one_transaction="replace",
)
IMPORT = Operation(
    name="import_files",
    command="import",
    dag="import",
    noun="an import",
    title="Import the new files of folders into one table",
    lock=None,
    options=ImportFoldersOptions,
    load=_import,
    job=True,
    follows_settings=False,
    changes_table=False,
)
REWRITE = Operation(
    name="rewrite",
    command="rewrite",
    dag="rewrite_partitions",
    noun="a rewrite",
    title="Rewrite partitions of one table, by a filter or by a query",
    lock="merge",
    options=RewriteOptions,
    load=_rewrite,
    job=True,
    destroys=True,
    once=True,
)
ERASE = Operation(
    name="erase",
    command="erase",
    dag="erase",
    noun="an erase",
    title="Erase every row of one table that has one of the given keys",
    lock="merge",
    options=EraseOptions,
    load=_erase,
    job=True,
    destroys=True,
    once=True,
)
DROP = Operation(
    name="drop",
    command="drop",
    dag="remove_partitions",
    noun="a removal of partitions",
    title="Drop partitions of one table with all their rows",
    lock="merge",
    options=DropOptions,
    load=_drop,
    destroys=True,
    once=True,
)
TTL = Operation(
    name="ttl",
    command="ttl",
    dag="ttl",
    noun="a TTL run",
    title="Drop what is past the age that one table keeps",
    lock="merge",
    options=TtlOptions,
    load=_ttl,
    destroys=True,
)
RESTORE = Operation(
    name="restore",
    command="restore",
    dag="restore",
    noun="a restore",
    title="Undo what transactions did to partitions of one table",
    lock="merge",
    options=RestoreOptions,
    load=_restore,
    destroys=True,
    once=True,
    one_transaction="restore",
)
CLEANUP = Operation(
    name="cleanup",
    command="cleanup",
    dag="tombstone_cleanup",
    noun="a clean-up",
    title="Delete the objects of one table that were replaced and whose grace is over",
    lock="cleanup",
    options=CleanupOptions,
    load=_cleanup,
    destroys=True,
    keeps_rows=True,
)
SWEEP = Operation(
    name="sweep",
    command="sweep",
    dag="orphan_sweep",
    noun="a sweep of orphans",
    title="Delete the objects of one table that its log does not name",
    lock="cleanup",
    options=SweepOptions,
    load=_sweep,
    destroys=True,
    follows_settings=False,
    changes_table=False,
)
REBUILD = Operation(
    name="rebuild",
    command="rebuild",
    dag="rebuild",
    noun="a rebuild",
    title="Write the lost log of one table from its parts and transactions",
    lock="cleanup",
    options=RebuildOptions,
    load=_rebuild,
    destroys=True,
    once=True,
    follows_settings=False,
)
VERIFY = Operation(
    name="verify",
    command="verify",
    dag="verify",
    noun="a check",
    title="Check one table",
    lock="cleanup",
    options=VerifyOptions,
    load=_verify,
    only_looks=True,
    follows_settings=False,
    changes_table=False,
)

OPERATIONS: tuple[Operation[Any], ...] = (
    MERGE,
    CLEANUP,
    TTL,
    DROP,
    REWRITE,
    DELETE,
    REPLACE,
    IMPORT,
    RESTORE,
    ERASE,
    SWEEP,
    VERIFY,
    REBUILD,
)
