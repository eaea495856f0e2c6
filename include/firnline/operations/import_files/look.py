"""A look at the folder of an import: its files and their footers, and the plan that they make."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from firnline.errors import StoreError, UsageError, some
from firnline.log.imports import (
    last_listed,
    overlapping,
    records_of,
)
from firnline.next_steps import NEW_OR_AGAIN
from firnline.operations.import_files.listing import (
    Listing,
    is_named_parquet,
    refuse_inside_of_other,
    sort_out,
)
from firnline.operations.import_files.path_columns import parse_types
from firnline.operations.import_files.plan import ImportPlan, plan_import
from firnline.operations.import_files.progress import ImportProgress
from firnline.operations.import_files.source import Folder
from firnline.operations.import_files.taken import (
    Taken,
    read_forgotten,
    read_taken,
    refuse_forgotten,
    refuse_unlisted,
)
from firnline.operations.import_options import ImportOptions
from firnline.parquet.footers import FooterFacts, FooterTask, FooterWanted, many_facts
from firnline.paths import Root
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta, Store
from firnline.table import Table
from firnline.units import counted

_TELL_EVERY = 10


def prefix_of(table: Table, source: str) -> str:
    """Return the folder's key prefix in the table's store, ending in ``/``. Raises UsageError."""
    here, there = Root.parse(table.settings.root), Root.parse(source, source=True)
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
class Looked:
    """The files of a folder, the plan for them, and the list of those that were taken before."""

    plan: ImportPlan
    found: Mapping[str, ObjectMeta]
    """Files of the folder that are to be taken, by key."""
    taken: Taken | None
    """Files that imports have taken so far; None where no list is kept, as of files in place."""
    number: int
    """Of the list that this import writes; 0: none."""
    plan_without: Callable[[Collection[str]], ImportPlan]
    """Plans without some of the files: a file that is left out gives no column its type."""

    @property
    def files(self) -> list[ObjectMeta]:
        """The files that are taken, as they were listed."""
        plan = self.plan
        keys = (*(f.source for f in (*plan.files, *plan.anew)), *plan.empty)
        return [self.found[key] for key in keys]

    def taken_now(self) -> Taken:
        """Return the list with the files of this import."""
        assert self.taken is not None
        return self.taken.plus(self.files)


def look(
    table: Table,
    snapshot: Snapshot,
    options: ImportOptions,
    prefix: str,
    tell: Callable[[ImportProgress], None],
) -> Looked:
    """List the folder, read the footers of its new files, and plan.

    Requests: those of ``run_import`` before the copies.

    Args:
        table: with the settings in force.
        snapshot: of the table.
        options: what to import.
        prefix: of the folder; see ``prefix_of``.
        tell: called every ten footers.

    Raises:
        UsageError: no such folder or file; one that was imported before, or is a table of another
            format; with ``strict``, something that would be left out; and as ``plan_import``.
        PartUnreadableError, PartSchemaError, SchemaConflictError: as ``plan_import``.
        LogCorruptError: the list of imported files does not read.
    """
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
        raise _no_files(table.store, prefix, listing, options)
    new = [meta for meta in listing.files if meta.key not in snapshot.parts]
    changed: list[str] = []
    if taken is not None and options.new:
        new, changed = taken.new_of(new)
    # A table without columns begins with those that its settings declare.
    columns = dict(snapshot.schema) or dict(table.settings.columns)
    if taken is not None and not (options.new or options.again):
        refuse_forgotten(taken, listing.files, table.settings.name)
    footers, strangers = _without_strangers(_footers(table, new, columns, tell))
    left_out = (*listing.left_out, *strangers)
    if options.strict and (left_out or changed):
        out = [*left_out, *changed]
        raise UsageError(
            f"{counted(len(out), 'object')} of {options.source} would be left out: {some(out)}",
            next_step="import without --strict, or move them away",
        )

    def plan(out: Collection[str] = ()) -> ImportPlan:
        return plan_import(
            folder,
            [facts for facts in footers if facts.key not in out],
            columns,
            ignored=left_out,
            already=len(listing.files) - len(new) - len(changed),
            changed=changed,
        )

    return Looked(plan(), {meta.key: meta for meta in new}, taken, number, plan)


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
        for record in overlapping(records, prefix):
            raise UsageError(
                f"{record.source} was imported into this table before "
                f"({counted(record.files, 'file')})",
                next_step=NEW_OR_AGAIN,
            )
    if table.settings.locking == "fenced":
        last = last_listed(records)
        if last is None:
            return read_forgotten(table, snapshot), 1
        return read_taken(table, last), last.number + 1
    if options.new:
        raise UsageError(
            f"table {name} has locking: {table.settings.locking}: its store ignores create-only "
            "puts, and two imports could take the same files",
            next_step="import folders one by one, without --new",
        )
    return None, 0


def _no_files(store: Store, prefix: str, listing: Listing, options: ImportOptions) -> UsageError:
    if _is_file(store, prefix.rstrip("/")):
        source = options.source.rstrip("/")
        here = source.removeprefix("file://")
        append = f", or take this file alone by `firnline append TABLE {shlex.quote(here)}`"
        return UsageError(
            f"{source} is a file, and a folder is imported",
            next_step=f"give its folder, {source.rpartition('/')[0]}{append * (here != source)}",
        )
    found = len(listing.left_out)
    are = "is" if found == 1 else "are"
    beside = f"; {counted(found, 'object')} there {are} none" if found else ""
    return UsageError(
        f"no Parquet file lies under {options.source}{beside}",
        next_step="correct the address; files end in .parquet, .parq or .pq, or have no ending",
    )


def _is_file(store: Store, key: str) -> bool:
    try:
        store.head(key)
    except StoreError:
        return False
    return True


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
    columns: dict[str, str],
    tell: Callable[[ImportProgress], None],
) -> list[FooterFacts]:
    stats = table.settings.statistics_columns
    asked = FooterWanted(columns=columns, stats=stats, row_groups=True, form=True)
    tasks = [FooterTask(meta.key, meta.size) for meta in files]
    footers = []
    for facts in many_facts(table.store, tasks, asked):
        footers.append(facts)
        if len(footers) % _TELL_EVERY == 0 or len(footers) == len(tasks):
            tell(ImportProgress(footers=len(tasks), footers_done=len(footers)))
    return footers
