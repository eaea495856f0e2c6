"""The operations that DAGs run, each described once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firnline.operations.import_files.options import ImportFoldersOptions
from firnline.operations.operation import AboutDag
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

if TYPE_CHECKING:
    from firnline.operations.cleanup.plan import CleanupPlan
    from firnline.operations.cleanup.run import CleanupReport
    from firnline.operations.delete.plan import DeletePlan, ErasePlan
    from firnline.operations.delete.run import DeleteReport
    from firnline.operations.drop.plan import DropPlan
    from firnline.operations.drop.run import DropReport
    from firnline.operations.erase.run import EraseReport
    from firnline.operations.import_files.folders import FoldersPlan, FoldersReport
    from firnline.operations.merge.groups import MergePlan
    from firnline.operations.merge.run import MergeReport
    from firnline.operations.operation import Figures
    from firnline.operations.rebuild.plan import RebuildPlan
    from firnline.operations.rebuild.run import RebuildReport
    from firnline.operations.replace.plan import ReplacePlan
    from firnline.operations.replace.run import ReplaceReport
    from firnline.operations.restore.plan import RestorePlan
    from firnline.operations.rewrite.plan import RewritePlan
    from firnline.operations.rewrite.prepare import PrepareReport
    from firnline.operations.rewrite.report import RewriteReport
    from firnline.operations.runner import TransactionReport
    from firnline.operations.sweep.plan import SweepPlan
    from firnline.operations.sweep.run import SweepReport
    from firnline.operations.ttl.plan import TtlPlan
    from firnline.operations.verify.run import VerifyReport

MERGE: AboutDag[MergeOptions, MergePlan, MergeReport] = AboutDag(
    name="merge",
    command="merge",
    dag="merge",
    noun="a merge",
    title="Merge small parts of one table into large sorted ones",
    lock="merge",
    shares_lock=True,
    options=MergeOptions,
    job=True,
    keeps_rows=True,
)
DELETE: AboutDag[DeleteOptions, DeletePlan, DeleteReport] = AboutDag(
    name="delete",
    command="delete",
    dag="delete_where",
    noun="a delete",
    title="Delete the rows of one table for which a condition is true",
    lock="merge",
    options=DeleteOptions,
    job=True,
    destroys=True,
    once=True,
    one_transaction="delete",
)
REPLACE: AboutDag[ReplaceOptions, ReplacePlan, ReplaceReport] = AboutDag(
    name="replace",
    command="replace",
    dag="replace",
    noun="a replace",
    title="Replace an interval of one table by staged rows, or by nothing",
    lock="merge",
    options=ReplaceOptions,
    job=True,
    destroys=True,
    once=True,
    one_transaction="replace",
)
IMPORT: AboutDag[ImportFoldersOptions, FoldersPlan, FoldersReport] = AboutDag(
    name="import_files",
    command="import",
    dag="import",
    noun="an import",
    title="Import the new files of folders into one table",
    lock=None,
    options=ImportFoldersOptions,
    job=True,
    follows_settings=False,
    changes_table=False,
)
REWRITE: AboutDag[RewriteOptions, RewritePlan, RewriteReport | PrepareReport] = AboutDag(
    name="rewrite",
    command="rewrite",
    dag="rewrite_partitions",
    noun="a rewrite",
    title="Rewrite partitions of one table, by a filter or by a query",
    lock="merge",
    options=RewriteOptions,
    job=True,
    destroys=True,
    once=True,
)
ERASE: AboutDag[EraseOptions, ErasePlan, EraseReport] = AboutDag(
    name="erase",
    command="erase",
    dag="erase",
    noun="an erase",
    title="Erase every row of one table that has one of the given keys",
    lock="merge",
    options=EraseOptions,
    job=True,
    destroys=True,
    once=True,
)
DROP: AboutDag[DropOptions, DropPlan, DropReport] = AboutDag(
    name="drop",
    command="drop",
    dag="remove_partitions",
    noun="a removal of partitions",
    title="Drop partitions of one table with all their rows",
    lock="merge",
    options=DropOptions,
    destroys=True,
    once=True,
)
TTL: AboutDag[TtlOptions, TtlPlan, DropReport] = AboutDag(
    name="ttl",
    command="ttl",
    dag="ttl",
    noun="a TTL run",
    title="Drop what is past the age that one table keeps",
    lock="merge",
    options=TtlOptions,
    destroys=True,
)
RESTORE: AboutDag[RestoreOptions, RestorePlan, TransactionReport] = AboutDag(
    name="restore",
    command="restore",
    dag="restore",
    noun="a restore",
    title="Undo what transactions did to partitions of one table",
    lock="merge",
    options=RestoreOptions,
    destroys=True,
    once=True,
    one_transaction="restore",
)
CLEANUP: AboutDag[CleanupOptions, CleanupPlan, CleanupReport] = AboutDag(
    name="cleanup",
    command="cleanup",
    dag="tombstone_cleanup",
    noun="a clean-up",
    title="Delete the objects of one table that were replaced and whose grace is over",
    lock="cleanup",
    options=CleanupOptions,
    destroys=True,
    keeps_rows=True,
)
SWEEP: AboutDag[SweepOptions, SweepPlan, SweepReport] = AboutDag(
    name="sweep",
    command="sweep",
    dag="orphan_sweep",
    noun="a sweep of orphans",
    title="Delete the objects of one table that its log does not name",
    lock="cleanup",
    options=SweepOptions,
    destroys=True,
    follows_settings=False,
    changes_table=False,
)
REBUILD: AboutDag[RebuildOptions, RebuildPlan, RebuildReport] = AboutDag(
    name="rebuild",
    command="rebuild",
    dag="rebuild",
    noun="a rebuild",
    title="Write the lost log of one table from its parts and transactions",
    lock="cleanup",
    options=RebuildOptions,
    destroys=True,
    once=True,
    follows_settings=False,
)
VERIFY: AboutDag[VerifyOptions, Figures, VerifyReport] = AboutDag(
    name="verify",
    command="verify",
    dag="verify",
    noun="a check",
    title="Check one table",
    lock="cleanup",
    options=VerifyOptions,
    only_looks=True,
    follows_settings=False,
    changes_table=False,
)

OPERATIONS: tuple[AboutDag[Any, Any, Any], ...] = (
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
