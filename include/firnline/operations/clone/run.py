"""Clone: a new table made of copies of another table's parts, copied by the store itself.

The plan is written to the target first (``ClonePlan``), and a run that died
is completed from it. Only that plan is ever deleted, and nothing is written to the source.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firnline.commit.base import stated
from firnline.commit.transaction import commit_whole
from firnline.errors import (
    CommitUnknownError,
    ObjectNotFoundError,
    SnapshotExpiredError,
    SnapshotUnstableError,
    StoreError,
    UsageError,
)
from firnline.log import txn_file
from firnline.log.txn_file import RunIdentity
from firnline.operations.clone.plan import (
    ClonePlan,
    decode,
    encode,
    refuse_place,
    with_history,
    without_history,
)
from firnline.operations.in_time import InTime, looked
from firnline.operations.operation import Work
from firnline.operations.options import CloneOptions, RelocateOptions
from firnline.operations.relocate.plan import refuse_missing, refuse_without
from firnline.operations.relocate.run import RelocateProgress, execute, plan_relocation
from firnline.operations.runner import Report, RunMetrics, refuse_unsafe_store
from firnline.paths import Root
from firnline.properties.in_force import current, from_settings
from firnline.state.health import no_table
from firnline.state.snapshot import Snapshot, read_snapshot
from firnline.store.create import create
from firnline.store.transfer import each
from firnline.table import Table

_LOG = logging.getLogger(__name__)
_TELL_EVERY = 10
_NEVER = 2**63
"""Bytes of log files above which a checkpoint is read: never, as it does not tell which log file
said what."""

Tell = Callable[[RelocateProgress], None]


class CloneReport(Report, frozen=True, kw_only=True):
    """Result of a clone."""

    table: str
    target: str
    dry_run: bool
    plan: dict[str, object]
    """As ``ClonePlan.to_json``."""
    copied: int
    """Objects that this run copied; one that died may have copied others."""
    requests: dict[str, int]
    seconds: float


def run_clone(work: Work, options: CloneOptions, *, target: Table) -> CloneReport:
    """Make a table at ``target`` that holds what readers of ``source`` see.

    Requests without the history: those of ``read_snapshot``, at most a GET for the properties (none
    where the log says them), a LIST per 1,000 objects of the source's ``_data/``, eight LIST and
    two GET of the target, a copy (PUT) for each live part, three PUT and one DELETE, the probe of
    the store. With it: a GET per log file of the source and five LIST, three LIST and two GET of
    the target, a copy for each object, one PUT and one DELETE, the probe of the store, and a
    relocation. No byte of a part passes this machine.

    Args:
        work: on what, and for whom; told every ten objects.
        target: where; nothing may be there.
        options: with or without the history.

    Raises:
        PropertiesDifferError: settings of the target name another key than the source has.
        UsageError: another bucket, a place within the other, something is at the target already, a
            part of the source is missing.
        SnapshotExpiredError: clean-up of the source deleted what was to be copied.
        CommitConflictError, CommitExpiredError, CommitUnknownError: see ``commit_whole``.
        StoreError: the store failed; run it again.

    After any error the target is either not a table yet or a complete one; the error says how to
    go on.
    """
    source = work.table
    metrics = [RunMetrics(table) for table in {id(t.store): t for t in (source, target)}.values()]
    refuse_place(Root.parse(source.settings.root), Root.parse(target.settings.root))
    state = _Run(source, target, options, work.identity, work.tell)
    in_target = state.inspect()
    plan = state.plan(in_target)
    if not options.dry_run:
        state.carry_out(plan, in_target)
    requests = [each.requests for each in metrics]
    return CloneReport(
        table=source.settings.name,
        target=target.settings.root,
        dry_run=options.dry_run,
        plan=plan.to_json(),
        copied=state.copied,
        requests={kind: sum(one[kind] for one in requests) for kind in requests[0]},
        seconds=metrics[0].seconds,
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """The objects that exist at the target."""

    logs: frozenset[str]
    transactions: frozenset[int]
    data: Mapping[str, int]
    """Key -> bytes."""


@dataclass
class _Run:
    source: Table
    target: Table
    options: CloneOptions
    identity: RunIdentity
    tell: Tell
    copied: int = 0
    done: int = 0
    total: int = 0

    def plan(self, in_target: _Target) -> ClonePlan:
        """Return the plan of a run that died, or make a new one and write it to the target."""
        known = self._begun()
        if known is not None:
            return self._same(known)
        self._refuse_used(in_target)
        # The source is read again where that took longer than half its grace.
        plan = looked(self.source, self._plan_once)
        if self.options.dry_run:
            return plan
        target = self.target
        refuse_unsafe_store(target)
        key = target.paths.clone_plan
        other = create(target.store, key, encode(plan))
        return plan if other is None else self._same(decode(key, other))

    def _begun(self) -> ClonePlan | None:
        key = self.target.paths.clone_plan
        try:
            return decode(key, self.target.store.get(key))
        except ObjectNotFoundError:
            return None

    def _same(self, begun: ClonePlan) -> ClonePlan:
        asked = (self.source.settings.root.rstrip("/"), self.options.history)
        if (begun.source.rstrip("/"), begun.history) == asked:
            return begun
        how = "with" if begun.history else "without"
        raise UsageError(
            f"a clone of {begun.source} {how} its history was begun at {self.target.settings.root}",
            next_step="run that one again, or delete everything there, or choose another target",
        )

    def inspect(self) -> _Target:
        """List the target."""
        store, paths = self.target.store, self.target.paths
        return _Target(
            logs=frozenset(meta.key for meta in store.list(paths.log_dir)),
            transactions=frozenset(paths.parse_txn(m.key) for m in store.list(paths.txn_dir)),
            data={meta.key: meta.size for meta in store.list(paths.data_dir)},
        )

    def _refuse_used(self, in_target: _Target) -> None:
        there = [
            *sorted(in_target.logs),
            *map(self.target.paths.txn, in_target.transactions),
            *in_target.data,
        ]
        if there:
            raise UsageError(
                f"there is something at {self.target.settings.root} already, {there[0]} for one",
                next_step="choose a place where nothing was ever written; if a clone with the "
                "history was stopped in its very end, `firnline relocate` completes it",
            )

    def _plan_once(self, time: InTime) -> ClonePlan:
        source, target, root = self.source, self.target, self.source.settings.root
        history = self.options.history
        snapshot = read_snapshot(
            source.store, source.paths, everything=history, checkpoint_above=_NEVER
        )
        if not snapshot.listing:
            raise no_table(source)
        properties_now = current(snapshot.properties)
        time.under(source.settings, None if properties_now is None else properties_now.grace)
        objects = {meta.key: meta.size for meta in source.store.list(source.paths.data_dir)}
        live = {path: marker.b for path, marker in snapshot.live.items()}
        refuse_missing(live, objects, source.paths, "run `firnline verify` on it")
        properties = stated(source, snapshot, born=True) or from_settings(source.settings)
        target.under(properties)  # a clone whose settings name another key would be unusable
        if history:
            return self._with_history(snapshot, objects)
        now = target.clock.now_ms()
        return without_history(
            snapshot, root, target.paths, target.ids.uuid7(now), now, self.identity, properties
        )

    def _with_history(self, snapshot: Snapshot, objects: Mapping[str, int]) -> ClonePlan:
        store, paths = self.source.store, self.source.paths
        erased = [meta.key for meta in store.list(paths.erase_dir) if meta.key.endswith(".json")]
        transactions = [meta.key for meta in store.list(paths.txn_dir)]
        marks = [c.x.seq for c in snapshot.contents.values() if c.x is not None]
        newest = max(marks, default=0)
        refuse_without(newest, transactions, paths, "run `firnline verify` on it")
        root = self.source.settings.root
        return with_history(snapshot, root, objects, transactions, erased)

    def carry_out(self, plan: ClonePlan, in_target: _Target) -> None:
        """Copy the missing objects and commit the table."""
        self._refuse_strangers(plan, in_target)
        if plan.history:
            self._with_log(plan, in_target)
        else:
            self._in_one_transaction(plan, in_target)

    def _refuse_strangers(self, plan: ClonePlan, in_target: _Target) -> None:
        """Refuse objects that the plan does not know: another writer has put rows at the target."""
        if self._is_complete(plan, in_target):
            return
        start = self._start(self.target)
        planned = {start + key for key in plan.logs} | {start + part.key for part in plan.parts}
        strange = sorted((in_target.logs | in_target.data.keys()) - planned)
        if strange:
            raise UsageError(
                f"{strange[0]} was written to {self.target.settings.root} while it was being "
                "cloned to",
                next_step="delete everything there and run it again, or choose another target",
            )

    @staticmethod
    def _start(table: Table) -> str:
        return table.paths.data_dir.removesuffix("_data/")

    def _is_complete(self, plan: ClonePlan, in_target: _Target) -> bool:
        return (
            not plan.history
            and bool(in_target.logs)
            and self._transaction(plan)[0].seq in in_target.transactions
        )

    def _transaction(self, plan: ClonePlan) -> tuple[txn_file.TxnHeader, bytes]:
        """Return the transaction. Raises LogCorruptError for a plan made for another place."""
        seq = msgspec.json.decode(plan.transaction.split(b"\n", 1)[0])["seq"]
        paths = self.target.paths
        return txn_file.decode(paths.txn(seq), plan.transaction, paths)

    def _copy_parts(self, plan: ClonePlan, in_target: _Target) -> None:
        start = self._start(self.target)
        missing = [p.key for p in plan.parts if in_target.data.get(start + p.key) != p.bytes]
        self.total = len(missing) + len(plan.logs) + len(plan.others)
        self._copy(missing)

    def _copy(self, keys: Sequence[str], in_time: Callable[[], None] = lambda: None) -> None:
        source, target = self._start(self.source), self._start(self.target)

        def one(key: str) -> None:
            in_time()
            try:
                self.target.store.copy(source + key, target + key)
            except ObjectNotFoundError as error:
                raise SnapshotExpiredError(
                    f"{source}{key} was deleted while {self.source.settings.root} was cloned: a "
                    "clean-up has passed",
                    next_step=f"delete everything at {self.target.settings.root} and run it again; "
                    "a larger cleanup.grace of the source gives it more time",
                ) from error
            in_time()  # it may have slept since: what it has copied names the source

        for _ in each(keys, one):
            self.copied += 1
            self.done += 1
            if self.done % _TELL_EVERY == 0 or self.done == self.total:
                self.tell(RelocateProgress(objects=self.total, objects_done=self.done))

    def _in_one_transaction(self, plan: ClonePlan, in_target: _Target) -> None:
        header, log_file = self._transaction(plan)
        if not self._is_complete(plan, in_target):
            self._copy_parts(plan, in_target)
            began = self.target.clock.elapsed_ms()
            self._refuse_superseded(plan)
            now = self.inspect()
            self._refuse_strangers(plan, now)
            if not self._is_complete(plan, now) and not commit_whole(
                self.target, header, log_file, began
            ):
                raise CommitUnknownError(
                    f"clone {self.target.paths.txn(header.seq)} is committed, and its log file is "
                    "not published yet",
                    next_step="run it again: that publishes it",
                )
        for answer in self.target.store.delete_many([self.target.paths.clone_plan]):
            if answer.error is not None:
                _LOG.warning("%s could not be deleted: %s", answer.key, answer.error)

    def _refuse_superseded(self, plan: ClonePlan) -> None:
        """Raise SnapshotUnstableError where another run has completed the clone meanwhile."""
        if self._begun() != plan:
            raise SnapshotUnstableError(
                f"another run has completed the clone at {self.target.settings.root}, or somebody "
                "has deleted what it had copied",
                next_step="see it with `firnline verify`",
            )

    def _with_log(self, plan: ClonePlan, in_target: _Target) -> None:
        """Write the log files as they are: no reader takes that for a table. Then relocate."""
        self._copy_parts(plan, in_target)
        time = InTime.since(self.target, self.target.clock.elapsed_ms(), plan.grace)
        self._refuse_superseded(plan)

        def in_time() -> None:
            # Another run may have completed the clone since, and clean-up deleted the log file.
            time.refuse(f"while it copied the log to {self.target.settings.root}")

        for keys in (plan.logs[:1], plan.logs[1:], plan.others):
            self._copy(keys, in_time)
        for answer in self.target.store.delete_many([self.target.paths.clone_plan]):
            if answer.error is not None:
                raise StoreError(
                    f"{answer.key} could not be deleted: {answer.error.message}",
                    next_step="run it again",
                )
        relocation = plan_relocation(self.target, RelocateOptions(old=self.source.paths.prefix))
        if relocation is not None:
            execute(self.target, relocation, self.tell)
