"""Compare the mirror of a table with its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from firnline.commit.base import read_base
from firnline.errors import FindingsError, FirnlineError
from firnline.mirror.delta import columns
from firnline.mirror.delta.head import read_head
from firnline.mirror.delta.hiding import hold_of, wrongly_hidden
from firnline.mirror.delta.publish import NAME
from firnline.mirror.delta.replay import Shown, replay
from firnline.mirror.delta.vectors import index_of
from firnline.mirror.hold import Hold, parts_with_deletes
from firnline.mirror.iceberg import hold as iceberg
from firnline.mirror.iceberg.where import where_is
from firnline.mirror.stated import refuse_unstated
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
    requests: dict[str, int]
    seconds: float

    @property
    def same(self) -> bool:
        """Return True if an engine that reads the mirror sees the table as it is."""
        other = self.missing or self.dead or self.columns_differ or self.unhidden
        return not other and self.hold is None and self.version is not None

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain | {"same": self.same}


class MirrorDiffersError(FindingsError):
    """The mirror does not show the newest state of the table; carries the report."""

    def __init__(self, report: CheckReport) -> None:
        reason = "it has no version yet" if report.version is None else _difference(report)
        super().__init__(
            f"the {title(report.format)} mirror of table {report.table} differs from its log: "
            f"{reason}",
            next_step=(
                "merge the table, then run `firnline mirror`"
                if report.hold is not None
                else "run `firnline mirror`, which publishes the newest state"
            ),
        )
        self.report = report


def _difference(report: CheckReport) -> str:
    said = []
    if report.missing:
        said.append(f"{counted(report.missing, 'live part')} {_are(report.missing)} missing")
    if report.dead:
        said.append(f"{counted(report.dead, 'part')} {_are(report.dead)} shown and dead")
    if report.unhidden:
        said.append(f"deletes hide other rows of {counted(report.unhidden, 'part')}")
    if report.columns_differ:
        said.append("the columns are others")
    if report.hold is not None:
        said.append(report.hold.reason)
    return ", ".join(said)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def run_check(table: Table) -> CheckReport:
    """Compare, without reading a part: a vector counts as right if it was made of the same deletes.

    Requests: those of ``replay`` and of ``read_base``, and 1 ranged GET; 1 GET more for a mirror
    with deletion vectors.

    Raises:
        MirrorRefusedError: the table is not to be mirrored, or a column has no place in Delta.
        MirrorDamagedError: the mirror does not read.
    """
    metrics = RunMetrics(table)
    head = read_head(table.store, table.paths)
    shown = Shown(-1)
    if head is not None:
        shown = replay(table.store, table.paths, head.version, head.listing)
    base = read_base(table)
    refuse_unstated(base, NAME)
    snapshot, name = base.snapshot, base.table.settings.name
    missing, dead = compare(snapshot, map(table.paths.delta_key, shown.files))
    hiding = parts_with_deletes(snapshot)
    hold = hold_of(base, hiding)
    unhidden = []
    if hold is None:
        index = None if head is None else index_of(table.store, table.paths, head.position)
        unhidden = wrongly_hidden(snapshot, hiding, shown, index)
    schema = columns.schema_string(name, snapshot.schema)
    return CheckReport(
        table=name,
        version=None if head is None else head.version,
        shown=None if head is None else head.position.seq,
        seq=base.seq,
        files=len(shown.files),
        parts=len(snapshot.live),
        missing=len(missing),
        missing_keys=tuple(missing[:_NAMED]),
        dead=len(dead),
        dead_keys=tuple(dead[:_NAMED]),
        columns_differ=head is not None and shown.schema != schema,
        unhidden=len(unhidden),
        unhidden_keys=tuple(unhidden[:_NAMED]),
        hold=hold,
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


def compare(snapshot: Snapshot, shown: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the keys of live parts that are not shown, and of shown ones that are not live."""
    keys = frozenset(shown)
    return sorted(snapshot.live.keys() - keys), sorted(keys - snapshot.live.keys())


def check_iceberg(table: Table) -> CheckReport:
    """Compare. Requests: those of the catalog, a GET per manifest, and those of ``read_base``.

    Raises:
        MirrorRefusedError: the table is not to be mirrored, or a column has no place in Iceberg.
        MirrorDamagedError: somebody else wrote to the mirror.
        MirrorCatalogError: the catalog does not answer.
    """
    where_is(table)
    from firnline.mirror.iceberg.view import read_view

    metrics = RunMetrics(table)
    view = read_view(table)
    base = read_base(table)
    refuse_unstated(base, "iceberg")
    snapshot = base.snapshot
    missing, dead = compare(snapshot, () if view is None else view.keys)
    return CheckReport(
        table=base.table.settings.name,
        format="iceberg",
        version=None if view is None else view.version,
        shown=None if view is None else view.position.seq,
        seq=base.seq,
        files=0 if view is None else len(view.keys),
        parts=len(snapshot.live),
        missing=len(missing),
        missing_keys=tuple(missing[:_NAMED]),
        dead=len(dead),
        dead_keys=tuple(dead[:_NAMED]),
        unhidden=0,
        unhidden_keys=(),
        columns_differ=view is not None and view.differs(table.settings.name, snapshot.schema),
        hold=iceberg.hold_of(snapshot),
        requests=metrics.requests,
        seconds=metrics.seconds,
    )


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
        refuse_unstated(base, NAME)
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
