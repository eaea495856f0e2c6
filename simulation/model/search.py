"""Breadth-first search over all states that a model can reach, and the shortest way to a bad one.

A model is any object with ``start``, ``successors`` and ``wrong``: the search knows nothing of
tables. States are hashable; each is looked at once.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Model(Protocol, Generic[S]):
    """What the search needs of a model."""

    def start(self) -> S:
        """Return the first state."""
        ...

    def successors(self, state: S) -> Iterable[tuple[str, S]]:
        """Yield what may happen next, in words, and the state after it."""
        ...

    def wrong(self, state: S) -> str | None:
        """Return what a state breaks, in words; None if it is as it has to be."""
        ...


@dataclass(frozen=True, slots=True)
class Explored:
    """What a search has seen."""

    states: int
    depth: int
    seconds: float
    found: str | None = None
    """The invariant that is broken; None: none is, in any reachable state."""
    trace: tuple[str, ...] = ()
    """The shortest way there, one line for each step."""
    cut: bool = False
    """True if the search ended at its limit of states, not because it had seen all of them."""


def explore(model: Model[S], limit: int | None = None) -> Explored:
    """Look at every reachable state, the nearest first; stop at the first one that is wrong."""
    began = time.monotonic()
    first = model.start()
    parents: dict[S, tuple[S, str] | None] = {first: None}
    layer, depth = [first], 0
    while layer:
        following: list[S] = []
        for state in layer:
            found = model.wrong(state)
            if found is not None:
                took = time.monotonic() - began
                return Explored(len(parents), depth, took, found, way_to(parents, state))
            for label, after in model.successors(state):
                if after not in parents:
                    parents[after] = (state, label)
                    following.append(after)
        if limit is not None and len(parents) > limit:
            return Explored(len(parents), depth, time.monotonic() - began, cut=True)
        layer, depth = following, depth + bool(following)
    return Explored(len(parents), depth, time.monotonic() - began)


def reachable(model: Model[S]) -> Iterator[S]:
    """Yield every reachable state, the nearest first."""
    first = model.start()
    seen, layer = {first}, [first]
    while layer:
        yield from layer
        following: list[S] = []
        for state in layer:
            for _, after in model.successors(state):
                if after not in seen:
                    seen.add(after)
                    following.append(after)
        layer = following


def way_to(parents: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    """Return the labels of the steps from the first state to this one."""
    steps: list[str] = []
    while (step := parents[state]) is not None:
        state, label = step
        steps.append(label)
    return tuple(reversed(steps))
