"""The operations, each described once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firnline.operations.import_options import ImportFoldersOptions, ImportOptions
from firnline.operations.operation import About, AboutDag, AnyDag
from firnline.operations.options import (
    AnalyzeOptions,
    CleanupOptions,
    CloneOptions,
    CommitOptions,
    DeleteOptions,
    DiscardOptions,
    DowngradeOptions,
    DropOptions,
    DropTableOptions,
    EndHoldOptions,
    EraseOptions,
    HoldOptions,
    LazyOptions,
    MergeOptions,
    MirrorOptions,
    PropertiesOptions,
    RebuildOptions,
    RelocateOptions,
    RepartitionOptions,
    ReplaceOptions,
    RestoreOptions,
    RewriteOptions,
    SchemaFixOptions,
    SweepOptions,
    TtlOptions,
    UpdateOptions,
    VerifyOptions,
)

if TYPE_CHECKING:
    from firnline.operations.analyze.plan import AnalyzePlan
    from firnline.operations.analyze.run import AnalyzeReport
    from firnline.operations.cleanup.plan import CleanupPlan
    from firnline.operations.cleanup.run import CleanupReport
    from firnline.operations.clone.run import CloneReport
    from firnline.operations.delete.plan import DeletePlan, ErasePlan
    from firnline.operations.delete.run import DeleteReport
    from firnline.operations.downgrade.plan import DowngradePlan
    from firnline.operations.downgrade.run import DowngradeReport
    from firnline.operations.drop.expired import TtlPlan
    from firnline.operations.drop.plan import DropPlan
    from firnline.operations.drop.run import DropReport
    from firnline.operations.drop_table.plan import DropTablePlan
    from firnline.operations.drop_table.run import DropTableReport
    from firnline.operations.erase.run import EraseReport
    from firnline.operations.hold.plan import HoldPlan
    from firnline.operations.hold.run import HoldReport
    from firnline.operations.import_files.folders import FoldersPlan, FoldersReport
    from firnline.operations.import_files.plan import ImportPlan
    from firnline.operations.import_files.run import ImportReport
    from firnline.operations.merge.plan import MergePlan
    from firnline.operations.merge.run import MergeReport
    from firnline.operations.mirror.run import MirrorReport
    from firnline.operations.operation import Figures
    from firnline.operations.prepared.run import CommitReport, DiscardReport, PreparedPlan
    from firnline.operations.properties.run import AppliedReport
    from firnline.operations.rebuild.plan import RebuildPlan
    from firnline.operations.rebuild.run import RebuildReport
    from firnline.operations.relocate.run import RelocateReport
    from firnline.operations.repartition.plan import RepartitionPlan
    from firnline.operations.repartition.run import RepartitionReport
    from firnline.operations.replace.plan import ReplacePlan
    from firnline.operations.replace.run import ReplaceReport
    from firnline.operations.restore.plan import RestorePlan
    from firnline.operations.rewrite.plan import RewritePlan
    from firnline.operations.rewrite.prepare import PrepareReport
    from firnline.operations.rewrite.report import RewriteReport
    from firnline.operations.runner import TransactionReport
    from firnline.operations.schema.evolution import LazyPlan
    from firnline.operations.schema.plan import SchemaFixPlan
    from firnline.operations.schema.run import SchemaFixReport
    from firnline.operations.sweep.plan import SweepPlan
    from firnline.operations.sweep.run import SweepReport
    from firnline.operations.update.run import UpdateReport
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
    asks="rows of {table} may go",
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
    asks="rows of {table} may go",
    lock="merge",
    may_share=True,
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
    begins=True,
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
    asks="rows of {table} may go",
    lock="merge",
    may_share=True,
    options=RewriteOptions,
    job=True,
    destroys=True,
    once=True,
)
UPDATE: AboutDag[UpdateOptions, RewritePlan, UpdateReport | PrepareReport] = AboutDag(
    name="update",
    command="update",
    dag="update_where",
    noun="an update",
    title="Give rows of one table new values where a condition is true",
    asks="values of {table} may change",
    lock="merge",
    may_share=True,
    options=UpdateOptions,
    job=True,
    destroys=True,
    once=True,
    one_transaction="update",
)
ERASE: AboutDag[EraseOptions, ErasePlan, EraseReport] = AboutDag(
    name="erase",
    command="erase",
    dag="erase",
    noun="an erase",
    title="Erase every row of one table that has one of the given keys",
    asks="rows of {table} may go",
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
    asks="partitions of {table} may go",
    lock="merge",
    options=DropOptions,
    destroys=True,
    once=True,
)
TTL: AboutDag[TtlOptions, TtlPlan, DropReport] = AboutDag(
    name="ttl",
    package="drop",
    attribute="TTL",
    command="ttl",
    dag="ttl",
    noun="a TTL run",
    title="Drop what is past the age that one table keeps",
    asks="rows of {table} may go",
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
    asks="{table} may be changed",
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
    begins=True,
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
    begins=True,
    asks="to rebuild the log of {table}",
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
    begins=True,
    lock="cleanup",
    options=VerifyOptions,
    only_looks=True,
    follows_settings=False,
    changes_table=False,
)

ANALYZE: About[AnalyzeOptions, AnalyzePlan, AnalyzeReport] = About(
    name="analyze",
    command="analyze",
    noun="an analyze",
    title="Fill in the statistics of parts of one table from their footers",
    options=AnalyzeOptions,
)
REPARTITION: About[RepartitionOptions, RepartitionPlan, RepartitionReport] = About(
    name="repartition",
    command="repartition",
    noun="a repartition",
    title="Move rows of one table to the partitions of its layout",
    options=RepartitionOptions,
)
EVOLVE: About[LazyOptions, LazyPlan, TransactionReport] = About(
    name="evolve",
    package="schema",
    attribute="LAZY",
    command="evolve",
    noun="a change of columns",
    title="Widen, rename and drop columns of one table; no part is rewritten",
    asks="to change the columns of {table}",
    options=LazyOptions,
)
EVOLVE_PARTS: About[SchemaFixOptions, SchemaFixPlan, SchemaFixReport] = About(
    name="schema_fix",
    package="schema",
    attribute="EVOLVE",
    command="evolve",
    noun="a change of columns",
    title="Widen, rename and drop columns of one table in all of its parts",
    asks="to rewrite parts of {table}",
    options=SchemaFixOptions,
)
SCHEMA_FIX: About[SchemaFixOptions, SchemaFixPlan, SchemaFixReport] = About(
    name="schema_fix",
    package="schema",
    command="schema",
    noun="a repair of the schema",
    title="Repair columns of one table that parts hold in several types",
    asks="to rewrite parts of {table}",
    options=SchemaFixOptions,
)
DOWNGRADE: About[DowngradeOptions, DowngradePlan, DowngradeReport] = About(
    name="downgrade",
    command="downgrade",
    noun="a downgrade",
    title="Make one table a pure table of log version 1",
    asks="to downgrade {table}",
    options=DowngradeOptions,
)
DROP_TABLE: About[DropTableOptions, DropTablePlan, DropTableReport] = About(
    name="drop_table",
    command="drop-table",
    noun="a drop of a table",
    title="Drop one table as a whole, and delete every object of it later",
    asks="all of {table} may go",
    begins=True,
    destroys=True,
    options=DropTableOptions,
)
RELOCATE: About[RelocateOptions, Figures, RelocateReport] = About(
    name="relocate",
    command="relocate",
    noun="a relocation",
    title="Write the log of one table for the place where it lies",
    begins=True,
    options=RelocateOptions,
)
MIRROR: About[MirrorOptions, Figures, MirrorReport] = About(
    name="mirror",
    command="mirror",
    noun="a publication",
    title="Publish the newest state of one table in its mirrors",
    options=MirrorOptions,
)
CLONE: About[CloneOptions, Figures, CloneReport] = About(
    name="clone",
    command="clone",
    noun="a clone",
    title="Make a table of copies of the parts of one table",
    options=CloneOptions,
)
APPLY_PROPERTIES: About[PropertiesOptions, AppliedReport, AppliedReport] = About(
    name="properties",
    command="properties apply",
    noun="a change of properties",
    title="Make one table say what its settings say",
    asks="to change the properties of {table}",
    options=PropertiesOptions,
)
HOLD: About[HoldOptions, HoldPlan, HoldReport] = About(
    name="hold",
    command="hold put",
    noun="a legal hold",
    title="Keep rows of one table from whatever would remove them",
    asks="to hold rows of {table}",
    options=HoldOptions,
)
END_HOLD: About[EndHoldOptions, HoldPlan, HoldReport] = About(
    name="end_hold",
    package="hold",
    attribute="END",
    command="hold end",
    noun="the end of a legal hold",
    title="End a legal hold of one table",
    asks="to end a legal hold of {table}",
    options=EndHoldOptions,
)
COMMIT: About[CommitOptions, PreparedPlan, CommitReport] = About(
    name="commit",
    package="prepared",
    attribute="COMMIT",
    command="rewrite",
    noun="a commit",
    title="Commit exactly what a rewrite of one table has prepared",
    asks="to commit a prepared change of {table}",
    options=CommitOptions,
)
DISCARD: About[DiscardOptions, PreparedPlan, DiscardReport] = About(
    name="discard",
    package="prepared",
    attribute="DISCARD",
    command="rewrite",
    noun="a discard",
    title="Delete what a rewrite of one table has prepared",
    options=DiscardOptions,
)
IMPORT_FOLDER: About[ImportOptions, ImportPlan, ImportReport] = About(
    name="import_folder",
    package="import_files",
    attribute="FOLDER",
    command="import",
    noun="an import",
    title="Import a folder into one table",
    begins=True,
    options=ImportOptions,
)

DAGS: tuple[AnyDag, ...] = (
    MERGE,
    CLEANUP,
    TTL,
    DROP,
    REWRITE,
    UPDATE,
    DELETE,
    REPLACE,
    IMPORT,
    RESTORE,
    ERASE,
    SWEEP,
    VERIFY,
    REBUILD,
)
"""Those that DAGs run."""
OPERATIONS: tuple[About[Any, Any, Any], ...] = (
    *DAGS,
    ANALYZE,
    REPARTITION,
    EVOLVE,
    EVOLVE_PARTS,
    SCHEMA_FIX,
    DOWNGRADE,
    DROP_TABLE,
    RELOCATE,
    MIRROR,
    CLONE,
    APPLY_PROPERTIES,
    HOLD,
    END_HOLD,
    COMMIT,
    DISCARD,
    IMPORT_FOLDER,
)
"""All."""
