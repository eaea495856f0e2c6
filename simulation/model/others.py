"""Processes that do not commit: appends, sweeps, clean-ups and readers; and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simulation.model.committer import behind_fence, give_up, go_on, to_publish, unpublished
from simulation.model.drafts import Change, draft
from simulation.model.files import File, Marker, Ref, Snap
from simulation.model.world import Process, State, Step, World

_AT_LANDING = "the grace of what came too late begins when it lands"


def row_of(who: str) -> str:
    """Return the row that an append brings."""
    return f"row {who.rsplit(maxsplit=1)[-1]}"


def appended(world: World, state: State, who: str) -> Process:
    """Return an append that has listed ``_txn/``."""
    newest = q = max((f.seq for f, _ in state.txns), default=0)
    if "append reads its sequence from the log" in world.off:
        q = max((f.seq for f, _ in state.log), default=0)
    marker = Marker(f"part {who.rsplit(maxsplit=1)[-1]}", q, frozenset(), frozenset({row_of(who)}))
    file = Ref.of(File(f"log file of {who}", 0, q, alive=frozenset({marker})))
    return Process("write", newest, state.tick, file, marker)


def append(world: World, state: State, number: int) -> Iterator[Step]:
    """Append one part (``append.append``, ``commit.append_log``)."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        begun = appended(world, state, who)
        yield f"{who} lists _txn/: its q is {begun.base}", state.now(number, begun)
    elif p.at == "write":
        assert p.out is not None
        done = state.put_part(p.out.part).now(number, p._replace(at="put"))
        yield f"{who} uploads {p.out.part}", done
    elif p.at == "put":
        yield from _put_log(world, state, number)
    elif p.at == "read back":
        yield from _own_log(world, state, number)


def _put_log(world: World, state: State, number: int) -> Iterator[Step]:
    p, who = state.processes[number], world.name(number)
    assert p.file is not None
    late = world.late(state, p) and "no append.ttl" not in world.off
    if late:
        # A put that was sent may have taken effect: only one that was not lets the part go.
        end = Process("unknown" if p.sent else "failed", p.base, file=p.file, out=p.out)
        gone = state if p.sent or p.out is None else state.without(frozenset({p.out.part}))
        yield f"{who} notices that append.ttl is over", gone.now(number, end)
        if not world.scenario.sleepers:
            return
    slept = ", having slept since its look at the clock" if late else ""
    stored = state.put_log(p.file)
    yield f"{who} puts its log file{slept}", stored.now(number, _acknowledged(world, state, p))
    if world.scenario.lost_answers:
        lost = p._replace(at="read back", sent=True)
        yield f"{who} puts its log file{slept}, and the answer is lost", stored.now(number, lost)


def _own_log(world: World, state: State, number: int) -> Iterator[Step]:
    p, who = state.processes[number], world.name(number)
    if any(f is p.file for f, _ in state.log):
        after = _acknowledged(world, state, p)
        yield f"{who} reads its own log file back", state.now(number, after)
    else:
        yield f"{who} finds no log file of its own", state.now(number, p._replace(at="put"))


def _acknowledged(world: World, state: State, p: Process) -> Process:
    """Return an append whose log file is there: its own clock decides what it says."""
    unchecked = "an append is acknowledged whenever it lands" in world.off
    fine = unchecked or world.scenario.stopped_clock or not world.late(state, p)
    return Process("acknowledged" if fine else "unknown", p.base, file=p.file, out=p.out)


def sweep(world: World, state: State, number: int) -> Iterator[Step]:
    """Delete what nothing names (``operations.sweep``), which is rule F4 of RFC 16."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        snap = world.read(state.log, everything=True)
        waiting = unpublished(state, snap.seq)
        if waiting is not None and "the sweep publishes nothing first" not in world.off:
            yield f"{who} finds {waiting} unpublished", to_publish(state, number, waiting)
            return
        ready = Process("list", snap.fence, state.tick, ripe=named_parts(world, snap))
        yield f"{who} reads the table as of {snap.newest}", state.now(number, ready)
    elif p.at == "list":
        yield from _list_parts(world, state, number)
    elif p.at == "delete":
        after = state.without(frozenset(p.ripe)).now(number, Process("done"))
        yield f"{who} deletes {', '.join(p.ripe)}", after
    else:
        yield from go_on(world, state, number)


def free_parts(
    world: World, state: State, named: tuple[str, ...], fence: int, began: int
) -> list[str]:
    """Return the parts that nobody names, old enough and before the fence (F4)."""
    orphans = _orphans(world, state, named, began)
    return [part for part, at in orphans if _before_the_fence(world, state, fence, at)]


def _orphans(
    world: World, state: State, named: tuple[str, ...], began: int
) -> list[tuple[str, int]]:
    oldest = began if "an orphan of any age is swept" in world.off else began - 1
    return [(part, at) for part, at in state.parts if at <= oldest and part not in named]


def _list_parts(world: World, state: State, number: int) -> Iterator[Step]:
    p, who = state.processes[number], world.name(number)
    orphans = _orphans(world, state, p.ripe, p.began)
    free = free_parts(world, state, p.ripe, p.base, p.began)
    if free:
        ready = Process("delete", ripe=tuple(free))
        yield f"{who} lists _data/ and finds {', '.join(free)}", state.now(number, ready)
    elif orphans and not p.left:
        yield from _raise_fence(world, state, number)
    else:
        yield f"{who} finds nothing", state.now(number, Process("nothing"))


def _before_the_fence(world: World, state: State, fence: int, at: int) -> bool:
    if "a sweep does not go by the fence" in world.off:
        return True
    return any(f.seq == fence and at < written for f, written in state.txns)


def _raise_fence(world: World, state: State, number: int) -> Iterator[Step]:
    """Commit a mark that states a higher fence, and judge by its state.

    At once: ``steps(mark)`` is such a transaction with all that may come between.
    """
    p, who = state.processes[number], world.name(number)
    snap = world.read(state.log, everything=True)
    if unpublished(state, snap.seq) is not None:
        return
    made = draft(world.base(state, snap), Change(), who, state.tick)
    if made.file.fence > p.base:
        after = state.put_txn(made).put_log(made)
        ready = p._replace(left=1, base=made.file.fence, ripe=named_parts(world, snap))
        yield f"{who} commits {made} with fence {made.file.fence}", after.now(number, ready)


def named_parts(world: World, snap: Snap) -> tuple[str, ...]:
    """Return the parts that a sweep leaves alone, those behind the fence included."""
    late = {m.part for f in snap.behind for m in f.file.alive}
    if "what is behind the fence was read by nobody" in world.off:
        late = set()
    return tuple(sorted({*snap.live, *snap.dead, *late}))


def clean_up(times: int = 1) -> Callable[[World, State, int], Iterator[Step]]:
    """Return the steps of some clean-ups, one after the other (``operations.cleanup``)."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p = state.processes[number]
        if p.at == "done" and p.left + 1 < times:
            # One that has ended left nothing behind but what it did.
            state = state.now(number, Process("begin", left=p.left + 1))
        yield from _clean_up(world, state, number)

    return act


def _clean_up(world: World, state: State, number: int) -> Iterator[Step]:
    """Delete folded log files and dead parts, then commit."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        snap = world.read(state.log, everything=True)
        waiting = unpublished(state, snap.seq)
        if waiting is not None:
            yield f"{who} finds {waiting} unpublished", to_publish(state, number, waiting)
            return
        ripe = (*old_logs(world, state, snap), *dead_parts(world, state, snap))
        if not ripe:
            return
        ready = Process("delete logs", snap.seq, state.tick, ripe=ripe, left=p.left)
        yield f"{who} plans to delete {', '.join(ripe)}", state.now(number, ready)
    elif p.at == "delete logs":
        logs = tuple(name for name in p.ripe if not name.startswith(("part", "output")))
        rest = tuple(name for name in p.ripe if name not in logs)
        ready = p._replace(at="delete parts" if rest else "done", ripe=rest)
        yield (
            f"{who} deletes {', '.join(logs) or 'no log file'}",
            (state.without(frozenset(logs)).now(number, ready)),
        )
    elif p.at == "delete parts":
        after = state.without(frozenset(p.ripe)).now(number, p._replace(at="commit"))
        yield f"{who} deletes {', '.join(p.ripe)}", after
    elif p.at in ("commit", "rebase"):
        yield from _commit_horizon(world, state, number)
    else:
        yield from go_on(world, state, number)


def _commit_horizon(world: World, state: State, number: int) -> Iterator[Step]:
    p, who = state.processes[number], world.name(number)
    snap = world.read(state.log, everything=True)
    waiting = unpublished(state, snap.seq)
    if waiting is not None:
        yield f"{who} finds {waiting} unpublished", to_publish(state, number, waiting)
        return
    behind = behind_fence(world, snap, p)
    if behind:
        yield f"{who} reads the table again: {behind}", give_up(state, number)
        return
    change = Change(confirmed=frozenset(p.ripe), everything=True)
    base, tiers = world.base(state, snap), world.scenario.tiers
    made = draft(base, change, who, state.tick, keep_old=tiers)
    ready = p._replace(at="put", file=made)
    yield f"{who} prepares {made} with what it deleted", state.now(number, ready)


def old_logs(world: World, state: State, snap: Snap) -> list[str]:
    """Stands for ``cleanup.plan._folded_logs`` and ``cleanup.logs.deletable``."""
    since: dict[str, int] = {}
    for f, at in state.log:
        for stone in f.file.stones:
            since[stone.file] = min(at, since.get(stone.file, at))
        if f in snap.behind:
            since[f.name] = at if _AT_LANDING in world.off else max(at, _behind_since(state, f))
    due = {f for f, _ in state.log if f.name in since and since[f.name] < state.tick}
    if snap.newest is not None:
        due = {f for f in due if f is not snap.newest and f.seq not in snap.newest.file.standing}
    stay = [f for f, _ in state.log if f not in due]
    held = {r for f in stay for r in f.file.records}
    free = [f for f in due if f.file.records <= held or f in snap.behind]
    return sorted(f.name for f in free)


def _behind_since(state: State, file: Ref) -> int:
    """Return when readers began to leave a log file out; until then they have seen it."""
    passed = (at for f, at in state.log if not file.seq and f.file.fence > file.file.q)
    return min(passed, default=0)


def dead_parts(world: World, state: State, snap: Snap) -> list[str]:
    """Stands for ``cleanup.plan._dead_parts``."""
    found = []
    for part, (marker, at) in snap.dead.items():
        if at <= snap.purged:
            continue
        seen = min(tick for f, tick in state.log for d in f.file.dead if d[0].part == part)
        if "the grace is counted from the tombstone alone" in world.off:
            seen = next((tick for f, tick in state.txns if f.seq == at), 0)
        if seen < state.tick:
            found.append(marker.part)
    return sorted(found)


def old_transactions(world: World, state: State, snap: Snap) -> tuple[str, ...]:
    """Stands for ``cleanup.plan.transactions_past``."""
    last = max(f.seq for f, _ in state.txns) - world.scenario.kept
    if "clean-up deletes transactions above the fence" not in world.off:
        last = min(last, snap.fence)
    named = {f.seq for f, _ in state.log if f.name not in snap.folded}
    old = [f for f, at in state.txns if f.seq <= last and at <= state.tick - 2]
    return tuple(f.name for f in old if f.seq not in named)


def forget(times: int = 1) -> Callable[[World, State, int], Iterator[Step]]:
    """Return the steps of a clean-up of old transactions."""

    def act(world: World, state: State, number: int) -> Iterator[Step]:
        p, who = state.processes[number], world.name(number)
        if p.at == "begin" and p.left < times:
            snap = world.read(state.log, everything=True)
            going = old_transactions(world, state, snap)
            if going:
                ready = p._replace(at="delete", ripe=going, left=p.left + 1)
                yield (
                    f"{who} lists _txn/ and plans to delete {', '.join(going)}",
                    state.now(number, ready),
                )
        elif p.at == "delete":
            kept = tuple(item for item in state.txns if item[0].name != p.ripe[0])
            rest = p.ripe[1:]
            ready = p._replace(at="delete" if rest else "begin", ripe=rest)
            yield (
                f"{who} deletes {p.ripe[0]} under _txn/",
                (state._replace(txns=kept).now(number, ready)),
            )

    return act


def read_parts(world: World, state: State, number: int) -> Iterator[Step]:
    """List the table and keep its parts for the grace, as a reader does."""
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        snap = world.read(state.log)
        ready = p._replace(at="reading", began=state.tick, ripe=tuple(sorted(snap.live)))
        yield f"{who} lists the table", state.now(number, ready)
