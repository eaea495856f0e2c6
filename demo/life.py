"""The life of the demo's table after its merge: each operation as a run of its own DAG.

January to March are too old and go by TTL; a backfill of the rewrite removes the cancelled flights
of April to June, a month in each run; clean-up deletes what all of that has replaced; verify looks
whether log and store agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table as Grid

from demo.airflow import run_backfill, run_dag
from demo.place import GRACE_SECONDS, KEPT_SINCE, TABLE, Place
from demo.queries import Content, content, content_of
from demo.report import RowsChangedError, wide_grid
from demo.screen import Screen
from firnline.state.snapshot import read_snapshot
from firnline.table import Table
from firnline.units import about_size
from tools.airflow_stack import AirflowStack

_REWRITTEN = ("2013-04-01", "2013-06-01")
"""First days of the months that the backfill rewrites."""
_REWRITTEN_UNTIL = datetime(2013, 7, 1, tzinfo=UTC)
_KEPT_ROWS = "dep_time IS NOT NULL"
"""Cancelled flights have no departure time."""


@dataclass(frozen=True)
class Figures:
    """Figures of a table at one moment."""

    after: str
    parts: int
    """Live ones."""
    rows: int
    bytes: int
    """Of the live parts."""
    objects: int
    """Everything under the table's root."""
    stored: int
    """Bytes of all of them."""
    log_files: int
    """Number of log files that a reader fetches."""


def look(table: Table, after: str) -> Figures:
    """Take the figures of a table: its log, and a listing of all its objects."""
    snapshot = read_snapshot(table.store, table.paths)
    live = snapshot.live.values()
    sizes = [meta.size for meta in table.store.list(f"{table.paths.prefix}/")]
    return Figures(
        after=after,
        parts=len(live),
        rows=sum(marker.n or 0 for marker in live),
        bytes=sum(marker.b for marker in live),
        objects=len(sizes),
        stored=sum(sizes),
        log_files=len(snapshot.contents),
    )


def live_on(screen: Screen, place: Place, stack: AirflowStack, flights: pa.Table) -> list[Figures]:
    """Run the rest of the table's life; the figures after each operation.

    Raises:
        RunFailedError: a run failed.
        RowsChangedError: the table holds other rows than it must.
    """
    found = []

    def step(name: str, what: str, run: Callable[[Callable[[str], None]], str]) -> None:
        with screen.step(name, what) as shown:
            shown.done = run(shown.update)
        found.append(look(place.open(), name))

    step("ttl", f"ttl__{TABLE} is triggered", lambda tell: _ttl(stack, tell))
    kept = _kept(flights)
    _check(place, "the TTL", kept)
    step("rewrite", "a backfill is created", lambda tell: _rewrite(stack, tell))
    left = _rewritten(kept)
    _check(place, "the rewrite", left)
    step("clean-up", "waiting for the grace", lambda tell: _clean_up(stack, tell))
    step("verify", f"verify__{TABLE} is triggered", lambda tell: _verify(stack, tell))
    _check(place, "the clean-up", left)
    return found


def _ttl(stack: AirflowStack, tell: Callable[[str], None]) -> str:
    seconds = run_dag(stack, f"ttl__{TABLE}", {"dry_run": False}, tell)
    return f"ttl__{TABLE}: January to March are too old and dropped; tasks {seconds:.0f} s"


def _rewrite(stack: AirflowStack, tell: Callable[[str], None]) -> str:
    conf = {"where": _KEPT_ROWS, "dry_run": False}
    seconds = run_backfill(stack, f"rewrite_partitions__{TABLE}", _REWRITTEN, conf, tell)
    each = ", ".join(f"{value:.0f} s" for value in seconds)
    return f"backfill April to June without cancelled flights; {len(seconds)} runs: {each}"


def _clean_up(stack: AirflowStack, tell: Callable[[str], None]) -> str:
    # Since the last commit; stores tell times by the second.
    for second in range(GRACE_SECONDS + 2, 0, -1):
        tell(f"readers may use replaced parts for {second} s more")
        time.sleep(1)
    seconds = run_dag(stack, f"tombstone_cleanup__{TABLE}", {"dry_run": False}, tell)
    return f"tombstone_cleanup__{TABLE}, after {GRACE_SECONDS} s of grace; tasks {seconds:.0f} s"


def _verify(stack: AirflowStack, tell: Callable[[str], None]) -> str:
    seconds = run_dag(stack, f"verify__{TABLE}", {"deep": True}, tell)
    return f"verify__{TABLE} reads every footer and finds nothing; tasks {seconds:.0f} s"


# --- what the rows must be ------------------------------------------------------------------------


def _kept(flights: pa.Table) -> pa.Table:
    since = pa.scalar(KEPT_SINCE, flights["sched_dep"].type)
    return flights.filter(pc.greater_equal(flights["sched_dep"], since))


def _rewritten(flights: pa.Table) -> pa.Table:
    until = pc.less(flights["sched_dep"], pa.scalar(_REWRITTEN_UNTIL, flights["sched_dep"].type))
    cancelled = pc.and_(pc.is_null(flights["dep_time"]), until)
    return flights.filter(pc.invert(cancelled))


def _check(place: Place, what: str, wanted: pa.Table) -> None:
    right, found = content_of(wanted), content(place.open())
    if right != found:
        raise RowsChangedError(
            f"after {what} the table holds {_words(found)}, and it must be {_words(right)}",
            next_step="keep the folder and report this",
        )


def _words(content: Content) -> str:
    return f"{content.rows:,} rows with checksum {content.checksum:x}"


def chronicle(figures: list[Figures]) -> Grid:
    """The figures, a row for each operation."""
    grid = wide_grid()
    grid.add_column("after", ratio=1)
    for name in ("live parts", "rows", "size", "objects stored", "size", "log files read"):
        grid.add_column(name, justify="right")
    for one in figures:
        numbers = f"{one.parts:,}", f"{one.rows:,}", about_size(one.bytes)
        stored = f"{one.objects:,}", about_size(one.stored), f"{one.log_files:,}"
        grid.add_row(one.after, *numbers, *stored)
    return grid
