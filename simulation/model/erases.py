"""An erase of row 1, and its certificate (``operations.erase``)."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.model.committer import unpublished
from simulation.model.drafts import Change
from simulation.model.files import Marker, Record, Ref, Snap
from simulation.model.world import Process, State, Step, World

ROW = "row 1"


def erase(_world: World, snap: Snap, who: str) -> Change | None:
    """Plan to rewrite the parts with the row, and a record for what comes late."""
    held = tuple(sorted(p for p, m in snap.live.items() if ROW in m.rows))
    rows = frozenset[str]().union(*(snap.shown(snap.live[p]) for p in held)) - {ROW}
    made = Marker(f"output of {who} without {ROW}", snap.seq, frozenset(), rows)
    return Change(held, (made,) if rows else (), hides=frozenset({ROW}))


def certificate(world: World, state: State, number: int) -> Iterator[Step]:
    """List ``_data/``, read the log, and say whether nothing is left of the row.

    Complete: no part of before the erase is named, and no object that nobody names was written
    while something of before may have run. Such an object goes with a sweep, and whoever wrote it
    is behind the fence by then.
    """
    p, who = state.processes[number], world.name(number)
    if p.at == "begin":
        files = (f for f, _ in state.txns)
        if any(_record(f) for f in files) or _record_in(state):
            ready = Process("look", began=state.tick, ripe=tuple(part for part, _ in state.parts))
            yield f"{who} lists _data/", state.now(number, ready)
    elif p.at == "look":
        snap = world.read(state.log, everything=True)
        why = _remains(world, state, snap, p.ripe)
        if why or unpublished(state, snap.seq) is not None:
            yield (
                f"{who} waits: {why or 'somebody has to publish'}",
                state.now(number, Process("begin")),
            )
            return
        held = [part for part, _ in state.parts if _holds(part)]
        end = f"complete, and {held[0]} holds the row" if held else "complete"
        yield f"{who} is complete", state.now(number, Process(end))


def _remains(world: World, state: State, snap: Snap, objects: tuple[str, ...]) -> str:
    record = next((r for r in snap.records.values() if ROW in r.rows), None)
    if record is None:
        return ""  # dropped: the fence has passed it, and no part needed it
    seen = min(at for f, at in state.log if record in f.file.records)
    named = {**snap.live, **{part: m for part, (m, _) in snap.dead.items()}}
    for part in objects:
        marker = named.get(part)
        if marker is None and not _later(state, part, seen):
            if "a certificate does not look for objects without name" not in world.off:
                return f"{part} is unnamed"
        elif marker is not None and ROW in marker.rows and record.name not in marker.done:
            return f"{part} is of before"
    return "" if state.tick > seen else "appends may be under way"


def _later(state: State, part: str, seen: int) -> bool:
    """Return True if an object was written when nothing of before may have run any more."""
    return any(name == part and at > seen + 1 for name, at in state.parts)


def _holds(part: str) -> bool:
    return part == "part 1" or (part.startswith("output") and not part.endswith(f"without {ROW}"))


def _record(file: Ref) -> Record | None:
    return next((r for r in file.file.records if ROW in r.rows), None)


def _record_in(state: State) -> bool:
    return any(_record(f) for f, _ in state.log)
