"""A table that has lived, the kinds of objects that it can lose, and what then happens to whom.

Every kind of object that the product writes is there. A loss deletes objects as a rule of the
bucket, an operator or another tool does: between two requests, and without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replace_struct

from firnline.appends.append import Appender
from firnline.errors import FirnlineError, NothingToDoError
from firnline.operations.cleanup.run import run_cleanup
from firnline.operations.delete.run import run_delete
from firnline.operations.erase.completion import complete_certificate
from firnline.operations.erase.run import run_erase
from firnline.operations.merge.run import run_merge
from firnline.operations.operation import Work
from firnline.operations.options import (
    CleanupOptions,
    DeleteOptions,
    EraseOptions,
    MergeOptions,
    RebuildOptions,
    RewriteOptions,
    SweepOptions,
    VerifyOptions,
)
from firnline.operations.prepared.run import commit_prepared
from firnline.operations.rebuild.run import preview, run_rebuild
from firnline.operations.rewrite.prepare import run_prepare
from firnline.operations.run_records import record_completed
from firnline.operations.sweep.run import run_sweep
from firnline.operations.verify.run import run_verify
from firnline.paths import COMPLETE_SUFFIX, PLAN_SUFFIX
from firnline.state.health import require_table
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.table import Table
from tests.support.checkpoints import ALWAYS
from tests.support.histories import rows_from
from tests.support.mirror_scenarios import publish
from tests.support.places import MemoryPlace, Saved
from tests.support.reading import visible_by_partition
from tests.support.scenarios import DAY, PARTITIONED, Call, Ids, advance, dies_before, fill, tidy
from tests.support.world import MemoryStore

SETTINGS: dict[str, Any] = {
    **PARTITIONED,
    "checkpoint": {"min_parts": 1},
    "mirror": [{"delta": {"deletes": "vectors"}}],
}
NEW = frozenset(range(100, 106))
"""Ids of the rows that an append brings."""
GONE = 20
"""Below it a delete removes all rows."""


UNSEEN = "log file of an append"
"""The only object of which nothing else says that it was there."""


@dataclass(frozen=True)
class Lived:
    """The table, and what only its story tells of its objects."""

    saved: Saved
    rows: Ids
    last: Ids
    """Of the last append, which no transaction has folded."""
    live: frozenset[str]
    erased: frozenset[int]

    def right(self, losses: Sequence[str]) -> tuple[Ids, ...]:
        """Return the rows that are right after a loss: of an append that nothing names, both."""
        return (self.rows, self.rows - self.last) if UNSEEN in losses else (self.rows,)


def live_through(place: MemoryPlace, scratch: Path) -> Lived:
    """Appends, merges, erases, deletes, clean-ups, prepared changes, a mirror, and appends."""
    call = Call(place.new(SETTINGS), scratch)
    table = call.table
    fill(table, 4)
    run_merge(Work(table, call.run, call.engine), MergeOptions())
    advance(table, 5 * DAY)
    tidy(call)
    fill(table, 1, first=24)
    first = _erase(call, 3, 8)
    advance(table, 5 * DAY)
    tidy(call)
    complete_certificate(table, first, call.run)
    _erase(call, 10)
    fill(table, 2, first=30)
    run_merge(Work(table, call.run, call.engine), MergeOptions())
    run_delete(Work(table, call.run, call.engine), DeleteOptions(where="id < 2", mode="lazy"))
    _prepare(call, 30)
    begun = _prepare(call, 31)
    record_completed(table, call.run, "", (1,), 0)
    publish(call)
    fill(table, 2, first=42)
    dies_before(
        call,
        f"put {table.paths.txn_dir}",
        lambda dying: commit_prepared(dying.table, begun, dying.run),
    )
    advance(table, DAY)
    state = read_snapshot(table.store, table.paths)
    last = frozenset(range(48, 54))
    return Lived(
        place.save(table), rows_of(table), last, frozenset(state.live), frozenset({3, 8, 10})
    )


def _erase(call: Call, *ids: int) -> str:
    advance(call.table, 10)
    options = EraseOptions(columns=("id",), keys=tuple((n,) for n in ids))
    found = run_erase(Work(call.table, call.run, call.engine), options).certificate
    assert found is not None
    return found


def _prepare(call: Call, gone: int) -> str:
    """Write a rewrite that waits and would remove a row; returns its id."""
    advance(call.table, 10)
    options = RewriteOptions(
        where=f"id <> {gone}", partitions=(f"day={gone % 2}",), force=True, prepare=True
    )
    run = replace_struct(call.run, run_id=f"prepare-{gone}")
    found = run_prepare(Work(call.table, run, call.engine), options)
    assert found.id is not None
    return found.id


def rows_of(table: Table) -> Ids:
    """Ids that a reader sees, by the log and by a checkpoint; each once."""
    require_table(table)
    store, paths = table.store, table.paths
    snapshots = read_snapshot(store, paths), read_snapshot(store, paths, checkpoint_above=ALWAYS)
    by_log, by_checkpoint = (_ids(table, snapshot) for snapshot in snapshots)
    assert by_log == by_checkpoint, "a checkpoint shows other rows"
    return by_log


def _ids(table: Table, snapshot: Snapshot) -> Ids:
    rows = [row["id"] for part in visible_by_partition(table, snapshot).values() for row in part]
    assert len(rows) == len(set(rows)), "rows are there twice"
    return frozenset(rows)


# --- what is lost ---------------------------------------------------------------------------------


Keys = Callable[[Table, Lived], list[str]]


def _under(folder: str, suffix: str = "") -> Keys:
    def keys(table: Table, _: Lived) -> list[str]:
        found = (key for key in _objects(table) if f"/{folder}/" in key and key.endswith(suffix))
        return sorted(found)

    return keys


def _objects(table: Table) -> Mapping[str, Any]:
    assert isinstance(table.store, MemoryStore)
    return table.store.objects


def _transactions(table: Table) -> list[str]:
    """Keys of transactions, the oldest first, without the birth record."""
    birth = table.paths.birth
    return sorted(key for key in _objects(table) if "/_txn/" in key and key != birth)


def _logs(table: Table) -> list[str]:
    """Keys of transactions' log files, the oldest first."""
    found = (key for key in _objects(table) if "/_log/" in key and "_m_0" in key)
    return sorted(found, key=lambda key: table.paths.parse_log(key).seq)


def _appends(table: Table) -> list[str]:
    """Keys of the log files of appends that no transaction has folded."""
    seen = read_snapshot(table.store, table.paths, everything=True)
    names = (key for key in _objects(table) if "/_log/" in key and "_m_0" not in key)
    return sorted(key for key in names if key not in seen.log_tombstones)


def _folded(table: Table) -> list[str]:
    seen = read_snapshot(table.store, table.paths, everything=True)
    return sorted(seen.log_tombstones.keys() & _objects(table).keys())


def _dead(table: Table) -> list[str]:
    seen = read_snapshot(table.store, table.paths, everything=True).parts
    return sorted(key for key, m in seen.items() if m.tmb is not None and key in _objects(table))


LOSSES: Mapping[str, Keys] = {
    UNSEEN: lambda table, _: _appends(table)[-1:],
    "log file of the newest transaction": lambda table, _: _logs(table)[-1:],
    "log file of the transaction before": lambda table, _: _logs(table)[-2:-1],
    "log files that are folded": lambda table, _: _folded(table),
    "all of `_log/`": _under("_log"),
    "the newest transaction": lambda table, _: _transactions(table)[-1:],
    "the transaction before": lambda table, _: _transactions(table)[-2:-1],
    "older transactions": lambda table, _: _transactions(table)[:-2],
    "the birth record": lambda table, _: [table.paths.birth],
    "all of `_txn/`": _under("_txn"),
    "a live part": lambda _, lived: sorted(lived.live)[:1],
    "a dead part": lambda table, _: _dead(table)[:1],
    "checkpoints": _under("_ckpt"),
    "plans of erases": _under("_erase", PLAN_SUFFIX),
    "certificates": lambda table, lived: [
        key
        for key in _under("_erase", ".json")(table, lived)
        if not key.endswith((PLAN_SUFFIX, COMPLETE_SUFFIX))
    ],
    "complete certificates": _under("_erase", COMPLETE_SUFFIX),
    "records of runs": _under("_runs"),
    "statements of prepared changes": lambda table, lived: [
        key for key in _under("_prepared", ".json")(table, lived) if key.count(".") == 1
    ],
    "decisions on prepared changes": _under("_prepared", ".decision.json"),
    "the newest version of a mirror": lambda table, lived: _under("_delta_log", ".json")(
        table, lived
    )[-1:],
    "deletion vectors of a mirror": _under("_delta_vectors"),
}
"""Name of the kind in the table of docs/guarantees.md -> the objects that are lost."""


# --- who meets it ---------------------------------------------------------------------------------


def _nothing(_: Call) -> None:
    return None


def _read(call: Call, _: object) -> None:
    rows_of(call.table)


def _append(call: Call, _: object) -> None:
    Appender(call.table, scratch=call.scratch).append(rows_from(100))


def _writer(call: Call) -> Appender:
    writer = Appender(call.table, scratch=call.scratch)
    writer.knowing()
    return writer


def _append_more(_: Call, writer: Any) -> None:
    writer.append(rows_from(100))


def _merge(call: Call, _: object) -> None:
    run_merge(Work(call.table, call.run, call.engine), MergeOptions())


def _delete(call: Call, _: object) -> None:
    options = DeleteOptions(where=f"id < {GONE}", mode="eager")
    run_delete(Work(call.table, call.run, call.engine), options)


def _clean_up(call: Call, _: object) -> None:
    advance(call.table, 5 * DAY)
    run_cleanup(Work(call.table, call.run), CleanupOptions())


def _sweep(call: Call, _: object) -> None:
    advance(call.table, 5 * DAY)
    run_sweep(Work(call.table, call.run), SweepOptions())


def _verify(call: Call, _: object) -> frozenset[str]:
    report = run_verify(Work(call.table), VerifyOptions(deep=True))
    return frozenset(f.kind for f in report.findings if f.severity != "note")


def _rebuild(call: Call, _: object) -> frozenset[str]:
    report = run_rebuild(Work(call.table, call.run), RebuildOptions())
    return frozenset({"part-missing"} if report.plan["missing"] else ())


@dataclass(frozen=True)
class Act:
    """Something that is done to the table after the loss."""

    name: str
    run: Callable[[Call, Any], frozenset[str] | None]
    """Returns what it tells of besides, as kinds of findings."""
    before: Callable[[Call], Any] = _nothing
    """Done before the loss, by a process that goes on after it."""
    rows: Callable[[Ids], Ids] = lambda rows: rows
    """Ids that are visible afterwards, of those of before."""

    def __str__(self) -> str:
        return self.name


ACTS = (
    Act("read", _read),
    Act("append", _append, rows=lambda rows: rows | NEW),
    Act("append again", _append_more, _writer, rows=lambda rows: rows | NEW),
    Act("merge", _merge),
    Act("delete", _delete, rows=lambda rows: frozenset(n for n in rows if n >= GONE)),
    Act("clean-up", _clean_up),
    Act("sweep", _sweep),
    Act("verify", _verify),
    Act("rebuild", _rebuild),
)


@dataclass(frozen=True)
class Outcome:
    """What became of an act after a loss."""

    verdict: str
    """right; refused, and the table is as it was; told: it is right but for what was reported;
    wrong."""
    said: str = ""
    kinds: frozenset[str] = field(default_factory=frozenset)
    noticed: bool = False
    """It has itself refused, or reported something."""


def play(
    place: MemoryPlace, lived: Lived, losses: Sequence[str], act: Act, scratch: Path
) -> Outcome:
    """Lose objects, do something, and look what a reader sees then."""
    call = Call(place.restored(lived.saved), scratch)
    known = act.before(call)
    keys = {key for loss in losses for key in LOSSES[loss](call.table, lived)}
    assert keys, "there is nothing of this kind"
    for key in keys:
        del call.table.store.objects[key]  # type: ignore[attr-defined] # a MemoryStore
    told: frozenset[str] = frozenset()
    said, done = "", True
    try:
        told = act.run(call, known) or frozenset()
    except NothingToDoError as error:
        said = str(error)
    except FirnlineError as error:
        said, done = str(error), False
    noticed = not done or bool(told)
    right = lived.right(losses)
    try:
        seen = rows_of(call.table)
    except FirnlineError as error:
        return Outcome("refused", str(error) if done else said, told, noticed)
    if seen in ([act.rows(rows) for rows in right] if done else right):
        return Outcome("right" if done else "refused", said, told, noticed)
    if done and "part-missing" in told and seen < lived.rows:
        return Outcome("told", said, told, noticed)
    return Outcome("wrong", f"{said} {sorted(seen ^ act.rows(lived.rows))}", told, noticed)


def mended(
    place: MemoryPlace, lived: Lived, losses: Sequence[str], scratch: Path, *, revive: bool
) -> str:
    """Rebuild as somebody who knows which parts were live; returns "" if all is as it was."""
    call = Call(place.restored(lived.saved), scratch)
    for key in {key for loss in losses for key in LOSSES[loss](call.table, lived)}:
        del call.table.store.objects[key]  # type: ignore[attr-defined] # a MemoryStore
    options = RebuildOptions(revive=revive, force=True)
    try:
        for _ in range(3):
            asked = preview(call.table, options).undecided
            options = replace_struct(
                options,
                include=(*options.include, *(j.key for j in asked if j.key in lived.live)),
                exclude=(*options.exclude, *(j.key for j in asked if j.key not in lived.live)),
            )
        run_rebuild(Work(call.table, call.run), options)
        seen = rows_of(call.table)
    except FirnlineError as error:
        return str(error)
    if seen & lived.erased:
        return f"erased rows came back: {sorted(seen & lived.erased)}"
    return "" if seen in lived.right(losses) else f"other rows: {sorted(seen ^ lived.rows)}"
