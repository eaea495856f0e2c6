"""Compare the mirror of a table with its log."""

from __future__ import annotations

import msgspec

from firnline.commit.base import read_base
from firnline.errors import FindingsError
from firnline.mirror.delta import columns
from firnline.mirror.delta.head import read_head
from firnline.mirror.delta.hiding import hold_of, wrongly_hidden
from firnline.mirror.delta.publish import refuse
from firnline.mirror.delta.replay import Shown, replay
from firnline.mirror.delta.vectors import index_of
from firnline.mirror.hold import Hold, parts_with_deletes
from firnline.operations.runner import Report, RunMetrics
from firnline.state.snapshot import Snapshot
from firnline.table import Table

_NAMED = 100
"""Maximum parts that a report names of each kind."""


class CheckReport(Report, frozen=True, kw_only=True):
    """Result of a comparison of what the mirror shows with the live parts of the table."""

    table: str
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
            f"the mirror of table {report.table} differs from its log: {reason}",
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
        said.append(f"{report.missing} live parts are missing")
    if report.dead:
        said.append(f"{report.dead} parts are shown and dead")
    if report.unhidden:
        said.append(f"deletes hide other rows of {report.unhidden} parts")
    if report.columns_differ:
        said.append("the columns are others")
    if report.hold is not None:
        said.append(report.hold.reason)
    return ", ".join(said)


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
    refuse(base)
    snapshot, name = base.snapshot, base.table.settings.name
    missing, dead = compare(snapshot, shown)
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


def compare(snapshot: Snapshot, shown: Shown) -> tuple[list[str], list[str]]:
    """Return the keys of live parts that are not shown, and of shown ones that are not live."""
    paths = snapshot.paths
    wanted = {paths.delta_path(key): key for key in snapshot.live}
    missing = sorted(key for path, key in wanted.items() if path not in shown.files)
    dead = sorted(paths.delta_key(path) for path in shown.files if path not in wanted)
    return missing, dead


def refuse_differences(report: CheckReport) -> None:
    """Raise MirrorDiffersError unless the mirror shows the newest state."""
    if not report.same:
        raise MirrorDiffersError(report)
