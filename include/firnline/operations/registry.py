"""The operations that DAGs run, each described once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firnline.operations.operation import Loaded, Operation, without_engine, without_progress

if TYPE_CHECKING:
    from firnline.operations.cleanup.run import CleanupOptions
    from firnline.operations.delete.run import DeleteOptions
    from firnline.operations.drop.run import DropOptions
    from firnline.operations.erase.run import EraseOptions
    from firnline.operations.merge.run import MergeOptions
    from firnline.operations.rebuild.inventory import RebuildOptions
    from firnline.operations.replace.report import ReplaceOptions
    from firnline.operations.restore.run import RestoreOptions
    from firnline.operations.rewrite.work import RewriteOptions
    from firnline.operations.sweep.run import SweepOptions
    from firnline.operations.ttl.run import TtlOptions
    from firnline.operations.verify.run import VerifyOptions


def _merge() -> Loaded[MergeOptions]:
    from firnline.operations.merge.run import MergeOptions, preview, run_merge

    return Loaded(MergeOptions, preview, run_merge)


def _delete() -> Loaded[DeleteOptions]:
    from firnline.operations.delete.run import DeleteOptions, preview, run_delete

    return Loaded(DeleteOptions, preview, run_delete)


def _replace() -> Loaded[ReplaceOptions]:
    from firnline.operations.replace.report import ReplaceOptions
    from firnline.operations.replace.run import preview, run_replace

    return Loaded(ReplaceOptions, preview, run_replace)


def _rewrite() -> Loaded[RewriteOptions]:
    from firnline.operations.rewrite.work import RewriteOptions
    from firnline.operations.rewrite.run import preview, run_rewrite

    return Loaded(RewriteOptions, preview, run_rewrite)


def _erase() -> Loaded[EraseOptions]:
    from firnline.operations.erase.run import EraseOptions, preview, run_erase

    return Loaded(EraseOptions, preview, run_erase)


def _drop() -> Loaded[DropOptions]:
    from firnline.operations.drop.run import DropOptions, preview, run_drop

    return Loaded(DropOptions, preview, without_progress(run_drop))


def _ttl() -> Loaded[TtlOptions]:
    from firnline.operations.ttl.run import TtlOptions, preview, run_ttl

    return Loaded(TtlOptions, preview, without_progress(run_ttl))


def _restore() -> Loaded[RestoreOptions]:
    from firnline.operations.restore.run import RestoreOptions, preview, run_restore

    return Loaded(RestoreOptions, preview, without_engine(run_restore))


def _cleanup() -> Loaded[CleanupOptions]:
    from firnline.operations.cleanup.run import CleanupOptions, preview, run_cleanup

    return Loaded(CleanupOptions, preview, without_engine(run_cleanup))


def _sweep() -> Loaded[SweepOptions]:
    from firnline.operations.sweep.run import SweepOptions, preview, run_sweep

    return Loaded(SweepOptions, preview, without_engine(run_sweep))


def _rebuild() -> Loaded[RebuildOptions]:
    from firnline.operations.rebuild.inventory import RebuildOptions
    from firnline.operations.rebuild.run import preview, run_rebuild

    return Loaded(RebuildOptions, preview, without_engine(run_rebuild))


def _verify() -> Loaded[VerifyOptions]:
    from firnline.operations.verify.run import VerifyOptions, run_verify

    # It leaves nothing in the history.
    return Loaded(
        VerifyOptions,
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
    load=_merge,
    job=True,
)
DELETE = Operation(
    name="delete",
    command="delete",
    dag="delete_where",
    noun="a delete",
    title="Delete the rows of one table for which a condition is true",
    lock="merge",
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
    load=_replace,
    job=True,
    destroys=True,
    once=True,
    one_transaction="replace",
)
REWRITE = Operation(
    name="rewrite",
    command="rewrite",
    dag="rewrite_partitions",
    noun="a rewrite",
    title="Rewrite partitions of one table, by a filter or by a query",
    lock="merge",
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
    load=_cleanup,
    destroys=True,
)
SWEEP = Operation(
    name="sweep",
    command="sweep",
    dag="orphan_sweep",
    noun="a sweep of orphans",
    title="Delete the objects of one table that its log does not name",
    lock="cleanup",
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
    RESTORE,
    ERASE,
    SWEEP,
    VERIFY,
    REBUILD,
)
