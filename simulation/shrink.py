"""Shrinking of a violation: the same seed with fewer actors, crashes, faults and time jumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulation.chance import Event
from simulation.run import Played, play_seed

_MOST_PLAYS = 600


def shrink(played: Played, tell: Callable[[str], None] = lambda _: None) -> Played:
    """Return the shortest run found that still has a violation.

    Delta debugging over the events of the seed: halves first, then smaller pieces, down to single
    events. No remaining event can be removed alone (unless the number of tries ran out).

    Args:
        played: a seed with a finding.
        tell: called with a line of progress from time to time.
    """
    if played.finding is None:
        raise ValueError("there is nothing to shrink")
    best, seed = played, played.finding.seed
    pieces, plays = 2, 0
    while len(best.events) > 1 and plays < _MOST_PLAYS:
        for left_out in _pieces(best.events, pieces):
            plays += 1
            kept = frozenset(best.events) - frozenset(left_out)
            tried = play_seed(seed, kept)
            if tried.finding is not None and len(tried.events) < len(best.events):
                best, pieces = tried, max(2, pieces - 1)
                tell(f"{len(best.events)} events, {plays} tries")
                break
        else:
            if pieces >= len(best.events):
                break
            pieces = min(len(best.events), pieces * 2)
    return best


def _pieces(events: Sequence[Event], count: int) -> list[Sequence[Event]]:
    size = max(1, -(-len(events) // count))
    # The last ones first: events after the damage usually only reveal it.
    return [events[i : i + size] for i in range(0, len(events), size)][::-1]
