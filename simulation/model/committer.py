"""Operations that commit: a merge, a lazy delete, an eager one, a mark, and the end of a clean-up.

Stands for ``commit.base.take_base``, ``commit.transaction.commit``, ``store.create.create`` and
``commit.outputs``; ``look`` is rule F3 of RFC 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simulation.model.drafts import Change, draft
from simulation.model.files import Marker, Ref, Snap
from simulation.model.world import Process, State, Step, World

Plan = Callable[[World, Snap, str], Change | None]


def merge(world: World, snap: Snap, who: str) -> Change | None:
    """Plan a merge of all live parts into one (``operations.merge``)."""
    if not snap.live or all(part.startswith("output") for part in snap.live):
        return None
    rows = frozenset[str]().union(*(snap.shown(m) for m in snap.live.values()))
    q = snap.seq
    if "new parts have the sequence of their own transaction" in world.off:
        q = snap.seq + 1000
    name = f"output of {who}" + "".join(
        f" without {r}" for r in sorted(world.scenario.hides - rows)
    )
    return Change(tuple(sorted(snap.live)), (Marker(name, q, frozenset(), rows),))


def delete(world: World, _snap: Snap, _who: str) -> Change | None:
    """Plan a lazy delete: a record and nothing else (``operations.delete``)."""
    return Change(hides=world.scenario.hides)


def drop(_world: World, snap: Snap, _who: str) -> Change | None:
    """Plan to drop all live parts (``operations.drop``)."""
    return Change(tuple(sorted(snap.live))) if snap.live else None


def mark(_world: World, _snap: Snap, _who: str) -> Change | None:
    """Plan a transaction that changes nothing, as of ``properties`` or a sweep."""
    return Change()


def steps(plan: Plan) -> Callable[[World, State, int], Iterator[Step]]:
    """Return the steps of an operation that commits once."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        at = state.processes[number].at
        if at in ("begin", "rebase"):
            yield from _take_base(world, state, number, plan)
        else:
            yield from go_on(world, state, number)

    return act


def go_on(world: World, state: State, number: int) -> Iterator[Step]:
    """Yield the steps of a committer after it has taken a base; none if it has ended."""
    at = state.processes[number].at
    if at.startswith("ask the log"):
        yield from _ask_log(world, state, number)
    elif at in STEPS:
        yield from STEPS[at](world, state, number)


def unpublished(state: State, seq: int) -> Ref | None:
    """Return the transaction after a log's newest one."""
    return state.txn(seq + 1)


def to_publish(state: State, number: int, waiting: Ref) -> State:
    """Return the state in which a process publishes a transaction before it goes on."""
    p = state.processes[number]
    listing = ((waiting, state.tick),)
    return state.now(number, p._replace(at=f"publish before {p.at}", file=waiting, listing=listing))


def _take_base(world: World, state: State, number: int, plan: Plan) -> Iterator[Step]:
    """List ``_log/``, read it, list ``_txn/`` after its newest transaction, and plan."""
    p, who = state.processes[number], world.name(number)
    snap = world.read(state.log)
    waiting = unpublished(state, snap.seq)
    if waiting is not None:
        held = to_publish(state, number, waiting)
        yield f"{who} reads the table and finds {waiting} unpublished", held
        return
    if p.at == "begin":
        change = plan(world, snap, who)
        if change is None:
            yield f"{who} finds nothing to do", state.now(number, Process("nothing"))
            return
        p = p._replace(base=snap.seq, began=state.tick)
        if change.adds:
            p = p._replace(out=change.adds[0], ripe=change.kills)
    else:
        change = _again(p, world)
        behind = behind_fence(world, snap, p)
        if not behind:
            # No number above the fence is freed: the rival had it before its own put.
            p = p._replace(sent=False)
            state = state.now(number, p)
        refused = behind or _conflict(world, snap, change)
        if refused:
            yield f"{who} reads the table again: {refused}", give_up(state, number)
            return
    base = world.base(state, snap)
    after = "write" if p.at == "begin" and change.adds else "put"
    made = draft(base, change, who, state.tick)
    ready = p._replace(at=after, file=made, listing=())
    yield (
        f"{who} reads the table as of {snap.newest} and prepares {made}",
        state.now(number, ready),
    )


def _again(p: Process, world: World) -> Change:
    """Return the change of a process that commits it on another base."""
    assert p.file is not None
    if p.out is not None:
        return Change(p.ripe, (p.out,))
    return Change(hides=world.scenario.hides if _hides(p.file) else None)


def _hides(file: Ref) -> bool:
    return any(r.seq == file.seq for r in file.file.records)


def behind_fence(world: World, snap: Snap, p: Process) -> str:
    """Stands for ``transaction._refuse_behind_fence`` (F3)."""
    if "a committer does not go by the fence of its base" in world.off or snap.fence <= p.base:
        return ""
    return f"its fence is {snap.fence}, and it began on transaction {p.base}"


def _conflict(world: World, snap: Snap, change: Change) -> str:
    """Stands for ``transaction._refuse_conflict``."""
    if "no conflict check" not in world.off and not {*change.kills} <= {*snap.live}:
        return "what it replaces was replaced"
    return ""


def give_up(state: State, number: int) -> State:
    """Return the state after an operation that has failed: its outputs go, or stay as unknown."""
    p = state.processes[number]
    if p.out is None:
        return state.now(number, Process("failed"))
    if p.sent:
        return state.now(number, Process("unknown"))
    return state.now(number, Process("drop outputs", out=p.out))


def _publish_first(world: World, state: State, number: int) -> Iterator[Step]:
    """Create the log file of another's transaction (``commit.base.publish``)."""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    read_at = p.listing[0][1]
    back = p._replace(at=p.at.removeprefix("publish before "), listing=())
    yield from _publishing(world, state, number, (who, p.file, read_at), back)


def _publishing(
    world: World, state: State, number: int, what: tuple[str, Ref, int], after: Process
) -> Iterator[Step]:
    who, file, read_at = what
    late = state.tick > read_at and "a publisher never is too late" not in world.off
    if late:
        yield f"{who} is too late to publish {file}", state.now(number, after)
    if not late or world.scenario.sleepers:
        slept = ", having slept since its look at the clock" if late else ""
        yield f"{who} puts {file} into the log{slept}", state.put_log(file).now(number, after)


def _write(world: World, state: State, number: int) -> Iterator[Step]:
    """Upload the output (``operations.kernel_tasks``)."""
    p, who = state.processes[number], world.name(number)
    assert p.out is not None
    yield (
        f"{who} uploads {p.out.part}",
        state.put_part(p.out.part).now(number, p._replace(at="put")),
    )


def _put(world: World, state: State, number: int) -> Iterator[Step]:
    """Create-only put of ``_txn/{n+1}`` (``transaction._create_transaction``)."""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    late = world.late(state, p) and "no commit_ttl" not in world.off
    if late:
        late_end = state.now(number, Process("unknown")) if p.sent else None
        yield (
            f"{who} notices that commit_ttl is over",
            late_end or give_up(state, number),
        )
        if not world.scenario.sleepers:
            return
    slept = ", having slept since its look at the clock" if late else ""
    if state.txn(p.file.seq) is not None:
        yield (
            f"{who} puts {p.file}{slept}: exists already",
            state.now(number, p._replace(at="read back")),
        )
        return
    stored = state.put_txn(p.file)
    # Its publication is late by the time of this look at the clock (``transaction._published``).
    p = p._replace(listing=((p.file, state.tick),))
    yield f"{who} puts {p.file}{slept}", stored.now(number, p._replace(at="look"))
    if world.scenario.lost_answers:
        lost = p._replace(at="read back", sent=True)
        if "an unknown commit counts as failed" in world.off:
            lost = Process("drop outputs" if p.out else "failed", out=p.out)
        yield f"{who} puts {p.file}{slept}, and its answer is lost", stored.now(number, lost)


def _read_back(world: World, state: State, number: int) -> Iterator[Step]:
    """Get the object under the number (``store.create.create``)."""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    found = state.txn(p.file.seq)
    if found is None:
        yield (
            f"{who} reads {p.file} back: nothing is there",
            state.now(number, p._replace(at="put")),
        )
    elif found is p.file and "'exists already' always is a rival" not in world.off:
        yield f"{who} reads its own {p.file} back", state.now(number, p._replace(at="look"))
    else:
        # The number may have been freed after its own put: only the next base shows that not.
        sure = "a rival shows that the own put failed" in world.off
        ready = p._replace(at="rebase", sent=not sure)
        yield f"{who} finds that {found} has the number", state.now(number, ready)


def _look(world: World, state: State, number: int) -> Iterator[Step]:
    """List ``_txn/`` after j - 2: has the transaction taken effect (``commit.happened``)?"""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    seq = p.file.seq
    numbers = {f.seq for f, _ in state.txns}
    later = max((n for n in numbers if n in (seq - 1, seq, seq + 1)), default=0)
    later = min((n for n in numbers if n > seq), default=later)
    if later <= seq and (seq - 1 in numbers or _looks_at_nothing(world)):
        yield _reported(world, state, number)
    elif later == seq + 1 and not _looks_at_nothing(world):
        asks = state.now(number, p._replace(at="read the next"))
        yield f"{who} lists _txn/ and finds transaction {later}", asks
    elif _looks_at_nothing(world):
        yield _reported(world, state, number)
    else:
        found = f"{later} and none before" if later > seq else "none before its own"
        asks = state.now(number, p._replace(at=f"ask the log {later}"))
        yield f"{who} lists _txn/ and finds {found}", asks


def _looks_at_nothing(world: World) -> bool:
    return "a committer does not look after its put" in world.off


def _read_next(world: World, state: State, number: int) -> Iterator[Step]:
    """Get the head of the transaction after its own."""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    following = state.txn(p.file.seq + 1)
    if following is None:
        asks = p._replace(at=f"ask the log {p.file.seq + 1}")
        yield f"{who} finds that transaction {p.file.seq + 1} is gone", state.now(number, asks)
    elif following.file.before == p.file.name:
        yield _reported(world, state, number)
    else:
        yield f"{who} finds that {following} names another", _not_happened(state, number)


def _ask_log(world: World, state: State, number: int) -> Iterator[Step]:
    """List ``_log/``, which says what was committed where no transaction does."""
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    later, seq = int(p.at.rpartition(" ")[2]), p.file.seq
    newest = max((f.seq for f, _ in state.log), default=0)
    listed = any(f is p.file for f, _ in state.log)
    if listed or (newest != seq and max(newest, later) <= seq):
        yield _reported(world, state, number)
    elif newest == seq or "what cannot be known has not happened" in world.off:
        yield f"{who} finds another in the log", _not_happened(state, number)
    else:
        unknown = state.now(number, Process("unknown"))
        yield f"{who} finds later ones only: it is not known what happened", unknown


def _reported(world: World, state: State, number: int) -> Step:
    p = state.processes[number]
    assert p.file is not None
    done = p._replace(at="publish", ripe=(), sent=False)
    return f"{world.name(number)} finds {p.file} committed", state.now(number, done)


def _not_happened(state: State, number: int) -> State:
    """Return the state after a transaction that counts for nobody: its outputs go."""
    p = state.processes[number]._replace(sent=False)
    return give_up(state.now(number, p), number)


def _publish_own(world: World, state: State, number: int) -> Iterator[Step]:
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    done = Process("done", file=p.file, out=p.out, left=p.left)
    yield from _publishing(world, state, number, (who, p.file, p.listing[0][1]), done)


def _drop(world: World, state: State, number: int) -> Iterator[Step]:
    """Delete the outputs of a run that has failed (``commit.outputs.Outputs.delete``)."""
    p, who = state.processes[number], world.name(number)
    assert p.out is not None
    gone = state.without(frozenset({p.out.part}))
    yield f"{who} deletes {p.out.part}", gone.now(number, Process("failed"))


STEPS: dict[str, Callable[[World, State, int], Iterator[Step]]] = {
    "publish before begin": _publish_first,
    "publish before rebase": _publish_first,
    "write": _write,
    "put": _put,
    "read back": _read_back,
    "look": _look,
    "read the next": _read_next,
    "publish": _publish_own,
    "drop outputs": _drop,
}


def rival(plan: Plan, times: int) -> Callable[[World, State, int], Iterator[Step]]:
    """Return the steps of a process that commits, publishes and begins again, each time at once."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p, who = state.processes[number], world.name(number)
        if p.left == times:
            return
        snap = world.read(state.log)
        waiting = unpublished(state, snap.seq)
        if waiting is not None:
            state = state.put_log(waiting)
            snap = world.read(state.log)
            if unpublished(state, snap.seq) is not None:
                return
        change = plan(world, snap, f"{who} ({p.left + 1})")
        if change is None:
            return
        base = world.base(state, snap)
        for keep_old in (False, True)[: 1 + world.scenario.tiers]:
            made = draft(base, change, f"{who} ({p.left + 1})", state.tick, keep_old=keep_old)
            after = state.put_txn(made).put_log(made)
            for marker in change.adds:
                after = after.put_part(marker.part)
            kept = ", not folding the first log file" if keep_old else ""
            done = p._replace(left=p.left + 1)
            if change.hides is not None:
                done = done._replace(at="done", file=made)
            yield f"{who} commits {made}{kept}", after.now(number, done)

    return act
