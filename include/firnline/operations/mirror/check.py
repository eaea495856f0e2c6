"""Compare the mirror of a table with its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from firnline.commit.base import Base, read_base
from firnline.errors import FindingsError, FirnlineError, MirrorRefusedError
from firnline.mirror.delta import publish as delta
from firnline.mirror.delta.head import read_head
from firnline.mirror.delta.hiding import hold_of, wrongly_hidden
from firnline.mirror.hold import Hold, parts_with_deletes
from firnline.mirror.iceberg.hold import hold_of as hold_of_iceberg
from firnline.mirror.iceberg.where import AGAIN, where_is
from firnline.mirror.planned import Planned
from firnline.mirror.position import Position
from firnline.mirror.stated import refuse_unstated
from firnline.operations.mirror.words import again
from firnline.operations.runner import Report, RunMetrics
from firnline.state.snapshot import Snapshot
from firnline.table import Table
from firnline.units import counted

_NAMED = 100
"""Maximum parts that a report names of each kind."""


class CheckReport(Report, frozen=True, kw_only=True):
    """Result of a comparison of what the mirror shows with the live parts of the table."""

    table: str
    format: str = "delta"
    version: int | None
    """Newest version of the mirror; None for a table without one."""
    shown: int | None
    """Newest transaction that it says to show."""
    seq: int
    """Newest transaction of the table."""
    files: int
    parts: int
    """Live parts of the table."""
    missing: int
    """Live parts that the mirror does not show."""
    missing_keys: tuple[str, ...]
    dead: int
    """Parts that the mirror shows and that are not live any more."""
    dead_keys: tuple[str, ...]
    columns_differ: bool
    unhidden: int
    """Live parts of which the mirror does not hide what deletes hide."""
    unhidden_keys: tuple[str, ...]
    hold: Hold | None
    damage: str | None
    """Damage that no ordinary publication repairs; None if there is none."""
    refused: str | None
    """Why the table as it is has no place in the format; None if it has."""
    next_step: str | None
    """What makes the mirror show the newest state; None if it does."""
    requests: dict[str, int]
    seconds: float

    @property
    def same(self) -> bool:
        """Return True if an engine that reads the mirror sees the table as it is."""
        return self.next_step is None

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain | {"same": self.same}


class MirrorDiffersError(FindingsError):
    """The mirror does not show the newest state of the table; carries the report."""

    def __init__(self, report: CheckReport) -> None:
        super().__init__(
            f"the {title(report.format)} mirror of table {report.table} differs from its log: "
            f"{_difference(report)}",
            next_step=report.next_step or "",
        )
        self.report = report


def _difference(report: CheckReport) -> str:
    clauses = []
    if report.version is None:
        clauses.append("it has no version yet")
    elif report.missing:
        clauses.append(f"{counted(report.missing, 'live part')} {_are(report.missing)} missing")
    if report.dead:
        clauses.append(f"{counted(report.dead, 'part')} {_are(report.dead)} shown and dead")
    if report.unhidden:
        clauses.append(f"deletes hide other rows of {counted(report.unhidden, 'part')}")
    if report.columns_differ:
        clauses.append("the columns are others")
    clauses += [each for each in (report.damage, report.refused) if each is not None]
    if report.hold is not None:
        clauses.append(report.hold.reason)
    return ", ".join(clauses)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


@dataclass(frozen=True)
class _Compared:
    """What the mirror of a table shows, beside what it should."""

    base: Base
    head: int | None
    """Its newest version; None for a table without a mirror."""
    position: Position | None
    keys: frozenset[str]
    """Keys of the parts that it shows."""
    planned: Planned | MirrorRefusedError
    """The next version, or why there can be none."""
    hold: Hold | None
    columns_differ: bool
    again: str
    """Next step for a damaged mirror."""
    unhidden: Sequence[str] = ()
    damage: str | None = None

    def report(self, name: str, metrics: RunMetrics) -> CheckReport:
        snapshot, position = self.base.snapshot, self.position
        missing, dead = compare(snapshot, self.keys)
        other = bool(missing or dead or self.unhidden or self.columns_differ)
        damage = self._damage(other=other)
        return CheckReport(
            table=self.base.table.settings.name,
            format=name,
            version=self.head,
            shown=None if position is None else position.seq,
            seq=self.base.seq,
            files=len(self.keys),
            parts=len(snapshot.live),
            missing=len(missing),
            missing_keys=tuple(missing[:_NAMED]),
            dead=len(dead),
            dead_keys=tuple(dead[:_NAMED]),
            columns_differ=self.columns_differ,
            unhidden=len(self.unhidden),
            unhidden_keys=tuple(self.unhidden[:_NAMED]),
            hold=self.hold,
            damage=damage,
            refused=None if isinstance(self.planned, Planned) else self.planned.message,
            next_step=self._next_step(damage, other=other),
            requests=metrics.requests,
            seconds=metrics.seconds,
        )

    def _damage(self, *, other: bool) -> str | None:
        """Return what is damaged: a mirror that differs with nothing left to publish is, too."""
        if self.position is None:
            return None
        if self.damage is not None:
            return f"it {self.damage}"
        if len(self.keys) != self.position.files:
            return f"it shows {counted(len(self.keys), 'file')} and states {self.position.files}"
        done = isinstance(self.planned, Planned) and self.hold is None and not self.planned.due
        return "and nothing is left to publish" if other and done else None

    def _next_step(self, damage: str | None, *, other: bool) -> str | None:
        if not isinstance(self.planned, Planned):
            return self.planned.next_step
        if self.hold is not None:
            return "merge the table, then run `firnline mirror`"
        if damage is not None:
            return self.again
        if other or self.head is None:
            return "run `firnline mirror`, which publishes the newest state"
        return None


def run_check(table: Table) -> CheckReport:
    """Compare, without reading a part: a vector counts as right if it was made of the same deletes.

    Requests: those of ``replay`` and of ``read_base``, and 1 ranged GET; 1 GET more for a mirror
    with deletion vectors.

    Raises:
        NotMirroredError: the table states no such mirror.
        MirrorDamagedError: the mirror does not read.
    """
    metrics = RunMetrics(table)
    head = read_head(table.store, table.paths)
    seen = delta.Seen(table, head)
    shown, now = seen.replayed, table.clock.now_ms()
    base = read_base(table)
    refuse_unstated(base, delta.NAME)
    snapshot = base.snapshot
    hiding = parts_with_deletes(snapshot)
    hold = hold_of(base, hiding)
    planned: delta.Next | MirrorRefusedError
    try:
        planned = delta.plan_on(table, seen, now, base)
    except MirrorRefusedError as error:
        planned = error
    other = isinstance(planned, MirrorRefusedError) or shown.schema != planned.schema
    hidden = () if hold is not None else wrongly_hidden(snapshot, hiding, shown, seen.index)
    return _Compared(
        base=base,
        head=None if head is None else head.version,
        position=None if head is None else head.position,
        keys=frozenset(map(table.paths.delta_key, shown.files)),
        planned=planned,
        hold=hold,
        columns_differ=head is not None and other,
        again=again(table.settings.name),
        unhidden=hidden,
        damage=seen.damage,
    ).report(delta.NAME, metrics)


def compare(snapshot: Snapshot, shown: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the keys of live parts that are not shown, and of shown ones that are not live."""
    keys = frozenset(shown)
    return sorted(snapshot.live.keys() - keys), sorted(keys - snapshot.live.keys())


def check_iceberg(table: Table) -> CheckReport:
    """Compare. Requests: those of the catalog, a GET per manifest, and those of ``read_base``.

    Where the log does not tell what changed since the mirror, a GET per manifest again.

    Raises:
        NotMirroredError: the table states no such mirror.
        MirrorRefusedError: the settings do not say where it is, or it is another table's.
        MirrorDamagedError: somebody else wrote to the mirror.
        MirrorCatalogError: the catalog does not answer.
    """
    where_is(table)
    from firnline.mirror.iceberg import publish as iceberg
    from firnline.mirror.iceberg.catalog import open_catalog
    from firnline.mirror.iceberg.head import read_head as read_snapshot_head
    from firnline.mirror.iceberg.view import view_of

    metrics = RunMetrics(table)
    opened = open_catalog(table)
    head, now = read_snapshot_head(opened), table.clock.now_ms()
    view = None if head is None else view_of(opened, head)
    base = read_base(table)
    refuse_unstated(base, iceberg.NAME)
    planned: iceberg.Next | MirrorRefusedError
    try:
        planned = iceberg.plan_on(table, opened, head, now, base)
    except MirrorRefusedError as error:
        planned = error
    other = isinstance(planned, MirrorRefusedError) or planned.new_columns
    return _Compared(
        base=base,
        head=None if head is None else head.version,
        position=None if head is None else head.position,
        keys=frozenset() if view is None else view.keys,
        planned=planned,
        hold=hold_of_iceberg(base.snapshot),
        columns_differ=head is not None and other,
        again=AGAIN,
    ).report(iceberg.NAME, metrics)


_CHECKS = {"delta": run_check, "iceberg": check_iceberg}


@dataclass(frozen=True)
class Checks:
    """The comparison of each format that a table states."""

    reports: tuple[CheckReport, ...]
    errors: dict[str, FirnlineError]
    """Why a format could not be compared, by its name."""

    @property
    def same(self) -> bool:
        """Return True if each was compared and shows the newest state."""
        return not self.errors and all(report.same for report in self.reports)

    def refuse(self) -> None:
        """Raise MirrorDiffersError for the first that does not; else the first error."""
        for report in self.reports:
            refuse_differences(report)
        for error in self.errors.values():
            raise error


def run_checks(table: Table) -> Checks:
    """Compare the mirror in each format that the table states with the log.

    One that fails does not keep the others back. Requests: those of ``read_base``, and of the check
    of each format.

    Raises NotMirroredError: it states none.
    """
    base = read_base(table)
    names = () if base.properties is None else base.properties.mirrors
    if not names:
        refuse_unstated(base, delta.NAME)
    reports: list[CheckReport] = []
    errors: dict[str, FirnlineError] = {}
    for name in names:
        try:
            reports.append(_CHECKS[name](table))
        except FirnlineError as error:
            errors[name] = error
    return Checks(tuple(reports), errors)


def title(name: str) -> str:
    """Return a format as sentences name it."""
    return name.capitalize()


def refuse_differences(report: CheckReport) -> None:
    """Raise MirrorDiffersError unless the mirror shows the newest state."""
    if not report.same:
        raise MirrorDiffersError(report)
