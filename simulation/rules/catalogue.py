"""Rules of docs/format.md that can be switched off, which the simulation has to detect.

    python -m simulation --break "no conflict check" --seeds 20000

A mutation replaces functions of the product in this process. A broken invariant, or rows that do
not add up, count as found: the product caught itself.
"""

# ruff: noqa: SLF001 - breaking what is private is what this module is for

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from firnline.appends.append import Appender
from firnline.commit import append_log, base, fold, invariants, transaction
from firnline.commit.outputs import Outputs
from firnline.errors import CommitExpiredError, CommitUnknownError, ObjectExistsError
from firnline.log import codec, dated, reader, records, union
from firnline.log.fence import Fence
from firnline.operations import kernel_tasks as merge_tasks
from firnline.operations.cleanup import plan as plan_cleanup
from firnline.operations.cleanup import run as cleanup
from firnline.operations.replace import run as replace
from firnline.operations.replace.rows import NewRows
from firnline.operations.sweep import plan as plan_sweep
from firnline.operations.sweep import run as sweep
from firnline.properties.in_force import current
from firnline.state import checkpoint, health, snapshot
from firnline.store import create
from simulation.rules.breaking import Mutation, put
from simulation.rules.catalogs import CATALOGS, CATALOGS_RARE
from simulation.rules.changes import CHANGES, CHANGES_RARE
from simulation.rules.holds import HOLDS
from simulation.rules.keys import MORE, MORE_RARE
from simulation.rules.layouts import LAYOUTS
from simulation.rules.mirrors import MIRRORS
from simulation.rules.prepared import PREPARED
from simulation.rules.proofs import PROOFS
from simulation.rules.properties import PROPERTIES
from simulation.rules.sleepers import SLEEPERS, SLEEPERS_RARE
from simulation.rules.streams import STREAMS
from simulation.rules.updates import UPDATES, UPDATES_RARE


def _no_conflict_check() -> None:
    put(transaction, "_refuse_conflict", lambda *_: None)
    put(invariants, "INVARIANTS", ())


def _append_q_from_log() -> None:
    real = Appender._origin

    def begin(self: Any, began: int) -> Any:
        origin = real(self, began)
        table = self._table
        logs = [table.paths.parse_log(m.key).seq for m in table.store.list(table.paths.log_dir)]
        return dataclasses.replace(origin, q=max(logs, default=0))

    Appender._origin = begin  # type: ignore[method-assign] # the point of it


def _append_q_from_what_is_left() -> None:
    real = Appender._origin

    def begin(self: Any, began: int) -> Any:
        origin, table = real(self, began), self._table
        left = [table.paths.parse_txn(m.key) for m in table.store.list(table.paths.txn_dir)]
        return dataclasses.replace(origin, q=max(left, default=0))

    Appender._origin = begin  # type: ignore[method-assign] # the point of it


def _zombie_publisher() -> None:
    def publish(table: Any, header: Any, log_file: bytes, _read_at_ms: int) -> bool:
        create.create(table.store, header.log, log_file)
        return True

    for module in (base, transaction):
        put(module, "publish", publish)


def _no_commit_ttl() -> None:
    put(transaction, "_age_ms", lambda _table, _began_ms: 0)


def _no_append_ttl() -> None:
    put(append_log, "_latest_ms", lambda *_, **__: (sys.maxsize, sys.maxsize))


def _raw_carry() -> None:
    def carried(snap: Any, keys: Any, own: Any, _purged: int) -> list[Any]:
        return [m for key in keys for m in snap.contents[key].markers if m.p not in own]

    put(fold, "_carried", carried)
    put(invariants, "INVARIANTS", ())


def _purge_ignores_inputs() -> None:
    put(fold, "_listed_alive", lambda _snapshot, _paths: set())


def _own_sequence() -> None:
    real = records.marker_of

    def marker(*args: Any, **named: Any) -> Any:
        return msgspec.structs.replace(real(*args, **named), q=None)

    put(merge_tasks, "marker_of", marker)


def _drop_deletes_early() -> None:
    put(fold, "delete_is_over", lambda *_: True)


def _grace_from_tombstone() -> None:
    real_dead, real_logs = plan_cleanup._dead_parts, plan_cleanup._folded_logs

    def by_tombstone(real: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def buried(snap: Any, grace: int, *more: Any, **named: Any) -> list[Any]:
            found = real(snap, grace, *more, **named)
            return [msgspec.structs.replace(b, due=b.tmb + grace) for b in found]

        return buried

    put(plan_cleanup, "_dead_parts", by_tombstone(real_dead))
    put(plan_cleanup, "_folded_logs", by_tombstone(real_logs))


def _horizon_unconfirmed() -> None:
    def horizon(snap: Any, confirmed: Any) -> int:
        times = [m.tmb for p, m in snap.parts.items() if m.tmb is not None and p in confirmed]
        return int(max([snap.purged, *times]))

    put(cleanup, "purge_horizon", horizon)


def _sweep_reads_the_log_only() -> None:
    def take_base(table: Any, **_: Any) -> Any:
        read = snapshot.read_snapshot(table.store, table.paths, everything=True)
        known = current(read.properties)
        return base.Base(read, table.clock.elapsed_ms(), table.under(known), known)

    put(sweep, "take_base", take_base)


def _no_orphan_floor() -> None:
    put(plan_sweep, "LEAST_ORPHAN_MS", 0)
    put(sweep, "_grace", lambda *_: 0)


def _reader_skips_what_is_gone() -> None:
    def fetch(self: Any, keys: Any, contents: Any) -> bool:
        for key, data in self.store.get_many(keys):
            if data is not None:
                contents[key] = codec.decode(key, data, self.paths)
        return True

    reader.__dict__["_Fetch"].__call__ = fetch


def _exists_is_a_rival() -> None:
    def created(store: Any, key: str, data: bytes, **_: Any) -> bytes | None:
        try:
            store.put_new(key, data)
        except ObjectExistsError:
            return b"somebody else's"
        return None

    put(transaction, "create", created)


def _unknown_is_a_failure() -> None:
    real = transaction._create_transaction

    def attempt(
        table: Any, began_ms: int, header: Any, data: bytes, told: Any, logs: Any = ()
    ) -> bool:
        try:
            return real(table, began_ms, header, data, told, logs)
        except CommitUnknownError as error:
            told.may_stand = False
            raise CommitExpiredError("gave up", next_step="") from error

    put(transaction, "_create_transaction", attempt)


def _interrupted_is_failed() -> None:
    def abandon(self: Outputs, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self.attempt.may_stand = False
        real(self, error)

    real = Outputs._abandon
    Outputs._abandon = abandon  # type: ignore[method-assign] # the point of it


def _time_is_the_clocks() -> None:
    put(transaction, "time_after", lambda _names, now_ms: now_ms)
    put(invariants, "INVARIANTS", ())


def _alive_beats_dead() -> None:
    real = union.combine

    def combine(a: Any, b: Any) -> Any:
        made = real(a, b)
        return made if None not in (a.tmb, b.tmb) else msgspec.structs.replace(made, tmb=None)

    put(union, "combine", combine)


def _checkpoint_always_usable() -> None:
    put(checkpoint, "is_usable", lambda _checkpoint, _listing: True)


def _replace_under_itself() -> None:
    real = NewRows.added_to

    def added_to(self: NewRows, change: Any) -> Any:
        made = real(self, change)
        own = {part.key for part in self.parts}
        adds = [msgspec.structs.replace(m, q=0) if m.p in own else m for m in made.adds]
        return dataclasses.replace(made, adds=tuple(adds))

    NewRows.added_to = added_to  # type: ignore[method-assign] # the point of it


def _replace_without_record() -> None:
    real = replace.__dict__["change"]

    def change(snap: Any, found: Any, plan: Any, _records: Any, op: str) -> Any:
        return real(snap, found, plan, [], op)

    put(replace, "change", change)


def _unlisted_is_gone() -> None:
    real = fold._log_tombstones

    def tombstones(snap: Any, keys: Any, open_still: Any, _fence: Any) -> dict[str, int]:
        return real(snap, keys, open_still, Fence(sys.maxsize, sys.maxsize))

    put(fold, "_log_tombstones", tombstones)


def _lost_is_whole() -> None:
    real = health.judge

    def judge(*args: Any) -> health.Health:
        found = real(*args)
        return found if found.state != "lost" else health.Health("whole")

    put(health, "judge", judge)


def _published_on_any_log() -> None:
    put(health, "_mismatch", lambda *_: "")


def _standing_is_ignored() -> None:
    real = health.Log.of

    def of(log: Any) -> health.Log:
        return dataclasses.replace(real(log), standing=())

    health.Log.of = of  # type: ignore[method-assign] # the point of it


def _dates_are_waited_for() -> None:
    put(dated, "since", lambda t, seen, _now: max(t, seen))


def _dates_are_believed() -> None:
    put(dated, "listed", lambda _: {})
    put(dated, "recorded", lambda _: {})


def _dates_are_forgotten() -> None:
    put(dated, "is_over", lambda line, *_: line.startswith(b'{"dated"'))


_ALL: dict[str, Mutation] = {
    "clean-up waits for dates that are far ahead": Mutation(_dates_are_waited_for, 4),
    "the past goes by dates that are far ahead": Mutation(_dates_are_believed, 4),
    "a fold forgets when what is dated ahead took effect": Mutation(_dates_are_forgotten, 120),
    "no conflict check": Mutation(_no_conflict_check, 14),
    "append reads its sequence from the log": Mutation(_append_q_from_log, 3),
    "an append goes by what is left of the history": Mutation(_append_q_from_what_is_left, 18_042),
    "a publisher never is too late": Mutation(_zombie_publisher, 27),
    "no commit_ttl": Mutation(_no_commit_ttl, 230),
    "no append.ttl": Mutation(_no_append_ttl, 19),
    "a fold copies markers as they stand": Mutation(_raw_carry, 0),
    "a purge ignores who lists a part alive": Mutation(_purge_ignores_inputs, 21),
    "new parts have the sequence of their own transaction": Mutation(_own_sequence, 345),
    "delete records are dropped at once": Mutation(_drop_deletes_early, 38),
    "the grace is counted from the tombstone alone": Mutation(_grace_from_tombstone, 11),
    "the horizon passes what is not confirmed": Mutation(_horizon_unconfirmed, 0),
    "an orphan of any age is swept": Mutation(_no_orphan_floor, 5),
    "a reader skips log files that are gone": Mutation(_reader_skips_what_is_gone, 3),
    "'exists already' always is a rival": Mutation(_exists_is_a_rival, 282),
    "an unknown commit counts as failed": Mutation(_unknown_is_a_failure, 44),
    "an interrupt after the put deletes the outputs": Mutation(_interrupted_is_failed, 28),
    "a transaction's t is what the clock says": Mutation(_time_is_the_clocks, 0),
    "an alive marker beats a dead one": Mutation(_alive_beats_dead, 0),
    "new rows of a replace lie under its record": Mutation(_replace_under_itself, 3),
    "a replace leaves no record": Mutation(_replace_without_record, 3),
    "a checkpoint is used whatever became of its log files": Mutation(_checkpoint_always_usable, 5),
    "a lost log is read as it is": Mutation(_lost_is_whole, 1),
    "a transaction is published on any log": Mutation(_published_on_any_log, 148),
    "what the newest transaction stands on may be gone": Mutation(_standing_is_ignored, 93),
    **MORE,
    **STREAMS,
    **PROPERTIES,
    **LAYOUTS,
    **MIRRORS,
    **CHANGES,
    **PREPARED,
    **HOLDS,
    **UPDATES,
    **CATALOGS,
    **PROOFS,
    **SLEEPERS,
}

BACKED_UP = ("no commit_ttl", "an orphan of any age is swept")
"""Rules that the fence backs up: switched off alone they do no harm, as the model shows."""
NOT_FOUND_AGAIN = (
    "what the newest transaction stands on may be gone",
    "a restore knows pending deletes only",
    "a rebuild takes copies for appended parts",
    "a change of columns is for all schema lines",
    "one output of a group is enough",
    "a stream reads dead parts however old they are",
    "nobody compares slices with their parts",
    "slices of a group that has failed stay",
    "a committer does not look after its put",
    "nobody looks for late appends",
    "a sweep takes prepared parts for orphans",
    "numbers are freed at once",
)
"""Rules of which no seed is known since the order of requests changed; most were found before."""
BY_UNIT_TESTS = ("newer deletes are looked for in old values alone",)
"""Rules of which no seed was ever known: a unit test of the product covers each."""
_RARE_NOW = (*BACKED_UP, *NOT_FOUND_AGAIN)
MUTATIONS = {name: found for name, found in _ALL.items() if name not in _RARE_NOW}
"""Name of the broken rule -> function that breaks it, and a seed that finds it."""

RARE: dict[str, Callable[[], None]] = {
    "the sweep publishes nothing first": _sweep_reads_the_log_only,
    "a fold forgets what a torn listing does not show": _unlisted_is_gone,
    **CHANGES_RARE,
    **MORE_RARE,
    **CATALOGS_RARE,
    **SLEEPERS_RARE,
    **UPDATES_RARE,
    **{name: _ALL[name].switch_off for name in _RARE_NOW},
}
"""Rules without a known seed that finds them; unit tests cover them."""


def breaking(rule: str) -> Callable[[], None]:
    """Return the function that switches a rule off, with or without a known seed."""
    return RARE[rule] if rule in RARE else MUTATIONS[rule].switch_off
