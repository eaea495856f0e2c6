"""The properties that a table states, compared with its settings, and how they are changed.

A change is a transaction of its own that rewrites no part. Runs that began with the earlier
properties may go on with them: see ``properties.needed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from firnline.commit.base import Base, of_history, take_base
from firnline.commit.transaction import Change, commit
from firnline.errors import CommitConflictError, PropertiesDifferError, UsageError
from firnline.log.txn_file import Counts, RunIdentity
from firnline.next_steps import NEW_TABLE
from firnline.operations.runner import Report, Runner
from firnline.properties.in_force import (
    FIELDS,
    Difference,
    as_text,
    differences,
    from_settings,
    in_force,
    stated,
    waits,
)
from firnline.properties.record import Properties
from firnline.settings.load import TableSettings, settings_for_root
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.types.formats import refusals
from firnline.types.sql import fold_name

OP = "properties"


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One property, a line of the output of ``firnline properties``."""

    name: str
    table: str | None
    """The value in force, spelled as in the settings file; None if the table states none yet."""
    settings: str | None
    """The value in the settings; None if they state none."""
    differs: bool = False


class PropertiesView(Report, frozen=True, kw_only=True):
    """The properties of a table and what the settings say."""

    table: str
    said: bool
    """False if the table states no properties; its first commit takes those of the settings."""
    seq: int
    """Newest transaction."""
    since: int | None
    """Transaction that set what is in force; 0: the first append did."""
    properties: tuple[Property, ...]
    waits: dict[str, int]
    """Times that clean-up and sweep wait, ms: the longest that any run in progress may use."""


class AppliedReport(Report, frozen=True, kw_only=True):
    """Result of a change of properties."""

    table: str
    dry_run: bool
    changes: tuple[Property, ...]
    """Before (``table``) and after (``settings``)."""
    unnamed_mirrors: tuple[str, ...] = ()
    """Those that the table states and the settings do not name: they go on."""
    transaction: int | None
    requests: dict[str, int]
    seconds: float

    @property
    def nothing_to_do(self) -> bool:
        """Return True if the table says what the settings say."""
        return not self.changes


@dataclass(frozen=True, slots=True)
class Applied:
    """The changes to apply: the differences, and all properties afterwards."""

    changes: tuple[Difference, ...]
    after: Properties


def show(table: Table) -> PropertiesView:
    """Read the properties of a table. Requests: those of ``take_base``."""
    base = take_base(_neutral(table))
    has = None if base.properties is None else base.properties.plain()
    named = stated(_wanted(table)) if has is not None else from_settings(_wanted(table)).plain()
    other = {d.name for d in _differences(table, base.properties)}
    records = base.snapshot.properties
    longest_waits = waits(records, base.table.settings, table.clock.now_ms())
    return PropertiesView(
        table=table.settings.name,
        said=has is not None,
        seq=base.seq,
        since=max((r.seq for r in records), default=None),
        properties=tuple(
            Property(
                name=name,
                table=None if has is None else as_text(name, has[name]),
                settings=as_text(name, named[name]) if name in named else None,
                differs=name in other,
            )
            for name in FIELDS
        ),
        waits={
            "append.ttl": longest_waits.append_ttl,
            "commit_ttl": longest_waits.commit_ttl,
            "cleanup.grace": longest_waits.grace,
            "orphan_grace": longest_waits.orphan_grace,
        },
    )


def plan_changes(table: Table, base: Base, *, harmless: bool = False) -> Applied:
    """Return the properties in which the settings differ from the table.

    Args:
        table: with the settings.
        base: the newest state.
        harmless: leave out what only a person may apply.

    Raises UsageError: what cannot be changed on this table; MirrorRefusedError: a mirror that its
    columns keep from beginning, unless ``harmless``.
    """
    settings, now = _wanted(table), base.properties
    if now is None:
        after = from_settings(settings)
        has = after.plain()
        first = tuple(Difference(n, as_text(n, has[n]), "-") for n in FIELDS)
        if not harmless:
            _refuse_mirrors(table, base.snapshot, after.mirrors)
        return Applied(() if harmless else first, after)
    changes = tuple(d for d in _differences(table, now) if d.harmless or not harmless)
    names = {d.name for d in changes}
    values = {n: v for n, v in stated(settings).items() if n in names}
    if harmless and "mirror" in values:
        values["mirror"], changes = _begin_mirrors(now, values["mirror"], changes)
    after = msgspec.convert({**now.plain(), **values}, Properties, strict=False)
    after = msgspec.structs.replace(after, statistics=_statistics(table, after))
    in_force(_wanted(table) if not harmless else _neutral(table).settings, after)
    _refuse(table, base.snapshot, now, after)
    if not harmless:
        begun = [name for name in after.mirrors if name not in now.mirrors]
        _refuse_mirrors(table, base.snapshot, begun)
    return Applied(changes, after)


def _refuse_mirrors(table: Table, snapshot: Snapshot, mirrors: Iterable[str]) -> None:
    """Raise MirrorRefusedError for a mirror that would show nothing, by a column of the table.

    A scheduled run goes on all the same: its mirror says it.
    """
    for error in refusals(mirrors, table.settings.name, snapshot.schema):
        raise error


def _begin_mirrors(
    now: Properties, in_settings: Sequence[str], changes: Sequence[Difference]
) -> tuple[list[str], tuple[Difference, ...]]:
    """Return the mirrors of a table and those that the settings name besides, and the changes then.

    Clean-up keeps parts for the readers of a mirror that the table states, and these do not end
    because one settings file of several leaves it out: a person ends a mirror.
    """
    mirrors = list(dict.fromkeys([*now.mirrors, *in_settings]))
    text = as_text("mirror", mirrors)
    named = (replace(d, wanted=text) if d.name == "mirror" else d for d in changes)
    return mirrors, tuple(d for d in named if d.wanted != d.table)


def _statistics(table: Table, after: Properties) -> tuple[str, ...]:
    """Return columns of the layout, the key and those that the settings name besides."""
    bare = msgspec.structs.replace(after, statistics=())
    derived = in_force(_neutral(table).settings, bare).statistics_columns
    wanted = _wanted(table)
    ttl = (wanted.ttl.column,) if wanted.ttl is not None and wanted.ttl.column else ()
    return tuple(dict.fromkeys([*derived, *wanted.statistics, *ttl]))


def run_apply(
    table: Table, run: RunIdentity, *, dry_run: bool = False, harmless: bool = False
) -> AppliedReport:
    """Make the table's properties those of the settings, in one transaction.

    Requests: those of ``take_base``; four for the probe of the store and those of
    ``commit`` (two PUT and a LIST).

    Args:
        table: with the settings.
        run: who runs it, for the history.
        dry_run: plan only.
        harmless: apply only what changes nothing but the form of new parts.

    Raises:
        UsageError: see ``plan_changes``.
        SettingsError: settings that do not go together.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``transaction.commit``.
    """
    neutral = _neutral(table)
    runner = Runner(neutral, run, locking=_wanted(table).locking)

    def act(base: Base, plan: Applied) -> int:
        why = "; ".join(f"{d.name} {d.table} -> {d.wanted}" for d in plan.changes)
        return commit(neutral, base, change_to(base, plan.after, why), run).header.seq

    plan, seq = runner.run(
        lambda base: plan_changes(table, base, harmless=harmless),
        act,
        ends=lambda plan: dry_run or not plan.changes,
    )
    return AppliedReport(
        table=table.settings.name,
        dry_run=dry_run,
        changes=tuple(
            Property(name=d.name, table=d.table, settings=d.wanted) for d in plan.changes
        ),
        unnamed_mirrors=tuple(n for n in plan.after.mirrors if n not in _wanted(table).mirrors),
        transaction=seq,
        requests=runner.requests,
        seconds=runner.seconds,
    )


def change_to(base: Base, after: Properties, why: str) -> Change:
    """Return the transaction that gives a table other properties and touches no part.

    Args:
        base: the state on which they were planned.
        after: the properties from then on.
        why: for the history.
    """
    planned, name = base.properties, base.table.settings.name

    def refuse(snapshot: Snapshot) -> None:
        newest = max((r for r in snapshot.properties), key=lambda r: r.seq, default=None)
        if newest is not None and newest.seq and newest.values != planned:
            raise CommitConflictError(
                f"the properties of table {name} were changed meanwhile",
                next_step="run it again: it plans on those that are in force now",
            )

    return Change(
        op=OP, replaces=(), adds=(), counts=Counts(), refuse=refuse, properties=after, why=why
    )


def reconcile(table: Table, run: RunIdentity, *, dry_run: bool) -> AppliedReport | None:
    """For a scheduled run: apply harmless differences; refuse to go on with others.

    Requests: 1 LIST and 1 ranged GET; where something is applied those of ``run_apply``.

    Raises PropertiesDifferError: names the differences and the command.
    """
    found = _newest(table)
    other = _differences(table, found)
    grave = [d for d in other if not d.harmless]
    if grave:
        told = "; ".join(f"{d.name}: {d.wanted}, the table says {d.table}" for d in grave)
        raise PropertiesDifferError(
            f"the settings of table {table.settings.name} say {told}",
            next_step="correct the settings, or change the table with "
            f"`firnline properties apply {table.settings.name}`",
        )
    return run_apply(table, run, harmless=True) if other and not dry_run else None


def _newest(table: Table) -> Properties | None:
    keys = [meta.key for meta in table.store.list(table.paths.txn_dir)]
    return of_history(table, table.paths.parse_txn(max(keys))) if keys else None


def _differences(table: Table, now: Properties | None) -> Sequence[Difference]:
    return () if now is None else differences(_wanted(table), now)


def _wanted(table: Table) -> Any:  # noqa: ANN401 - TableSettings
    return table.wanted or table.settings


def _neutral(table: Table) -> Table:
    """Return the table with settings that state nothing: its own properties are in force."""
    named = _wanted(table)
    bare = settings_for_root(named.root).model_copy(update={"name": named.name})
    return replace(table, settings=bare, wanted=None)


def _refuse(table: Table, snapshot: Snapshot, now: Properties, after: Properties) -> None:
    """Raise UsageError for changes that would give existing parts another meaning."""
    if not snapshot.live:
        return
    name = table.settings.name
    moved = (now.partition_by, now.partition) != (after.partition_by, after.partition)
    if moved and (now.primary_key or after.primary_key):
        raise UsageError(
            f"table {name} has a primary key and rows: with another partition_by rows of one key "
            "would lie in two partitions, and both would be seen",
            next_step=NEW_TABLE,
        )
    table_columns = {fold_name(column) for column in snapshot.schema}
    for field, columns in _named(after).items():
        for column in columns:
            if fold_name(column) not in table_columns:
                raise UsageError(
                    f"table {name} has no column {column!r}, which {field} would name; it has "
                    f"{', '.join(snapshot.schema)}",
                    next_step="correct the settings",
                )


def _named(after: Properties) -> dict[str, list[str]]:
    """Return property -> columns that it names."""
    made = in_force(TableSettings.model_validate({"name": "t", "root": "memory://t"}), after)
    return {
        "primary_key": list(made.primary_key),
        "version": [made.version] if made.version else [],
        "deleted": [made.deleted] if made.deleted else [],
        "partition_by": [field.column for field in made.partition_by],
        "sort_by": [field.column for field in made.sort_by],
        "cluster_by": [] if made.cluster_by is None else list(made.cluster_by.columns),
        "statistics": list(after.statistics),
    }
