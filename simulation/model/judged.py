"""Which transactions under ``_txn/`` count for whoever rebuilds a log (``state.effect``)."""

from __future__ import annotations

from simulation.model.files import Ref
from simulation.model.world import State


def judged(state: State, off: frozenset[str]) -> list[Ref]:
    """Return the transactions that took effect, as far as objects under ``_txn/`` and log show."""
    if "a transaction that never took effect counts" in off:
        return [f for f, _ in state.txns]
    named = _named(state)
    listed = {f.name for f, _ in state.log}
    newest = max((f for f, _ in (*state.txns, *state.log)), key=lambda f: f.key)
    first = _first_of_run({f.seq for f, _ in (*state.txns, *state.log) if f.seq})
    found: list[Ref] = []
    for f, _ in state.txns:
        others = named.get(f.seq, frozenset()) - {f.name}
        known = f.name in named.get(f.seq, frozenset()) and not (others and f.name in listed)
        after = state.txn(f.seq + 1)
        other = after is not None and after.file.before != f.name
        below = f.seq < first and f.seq not in newest.file.standing
        gap = below and "what lies below a gap counts" not in off
        if not gap and (known or not (others or other)):
            found.append(f)
    return found


def _named(state: State) -> dict[int, frozenset[str]]:
    """Return number -> names of the transactions whose log files are listed, or were folded."""
    files = [f for f, _ in (*state.txns, *state.log)]
    names = {f.name for f, _ in state.log if f.seq}
    names |= {s.file for f in files for s in f.file.stones if s.file.startswith("transaction")}
    found: dict[int, frozenset[str]] = {}
    for name in names:
        seq = int(name.split()[1])
        found[seq] = found.get(seq, frozenset()) | {name}
    return found


def _first_of_run(there: set[int]) -> int:
    """Return the number from which to the highest none is missing."""
    first = max(there)
    while first - 1 in there:
        first -= 1
    return first
