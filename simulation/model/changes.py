"""The feed of changes of a table with a primary key, and a merge that an append lands in.

A small model of its own, of one key. Parts are put in order by the times of their rows, and the
last one has the row of the key. A merged part begins with the first and ends with the last of
those it was made of. A committer looks for appends in between before its put (``commit.keys.
refuse_between``, ``transaction._refuse_late_append``); one that lands after that look is read by
its time before the merge and after all merged parts from then on. So a merge that changes no row
changes the row that counts, and the feed has to say so (``read.steps._Walk._reordered``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SILENT = "changes take a merge for silent whatever landed in between"


class Part(NamedTuple):
    """A part with one row."""

    first: int
    last: int
    """Times of the rows that it is made of."""
    value: str


class Event(NamedTuple):
    """What the feed has to tell of."""

    what: str
    after: tuple[Part, ...]
    """The parts after it."""


class State(NamedTuple):
    """The table, who changes it, and who reads the feed."""

    parts: tuple[Part, ...]
    merge: str
    append: str
    events: tuple[Event, ...]
    """What the feed has not read yet."""
    told: str
    """The row of the key by the changes that were read."""


class Changes:
    """The model (``search.Model``)."""

    def __init__(self, off: frozenset[str] = frozenset()) -> None:
        self._off = off

    def start(self) -> State:
        """Return a table of two versions of a row."""
        return State((Part(1, 1, "v1"), Part(3, 3, "v3")), "begin", "begin", (), "v3")

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield the steps of an append, a merge, and a reader of the feed."""
        if state.append == "begin":
            yield "an append takes the time 2", state._replace(append="put")
        elif state.append == "put":
            after = _happened(state, "append", (*state.parts, Part(2, 2, "v2")))
            yield "the append lands, with v2 of time 2", after._replace(append="done")
        yield from _merge(state)
        if state.events:
            yield self._read(state)

    def _read(self, state: State) -> tuple[str, State]:
        event, told = state.events[0], state.told
        loud = event.what == "append" or (len(event.after) > 1 and SILENT not in self._off)
        if loud:
            told = _winner(event.after)
        after = state._replace(events=state.events[1:], told=told)
        return f"the feed reads the {event.what}: the row is {told}", after

    def wrong(self, state: State) -> str | None:
        """Return what is broken once the feed has read all."""
        if not state.events and state.told != _winner(state.parts):
            return "changes add up to rows that the table never had"
        return None


def _merge(state: State) -> Iterator[tuple[str, State]]:
    between = state.append == "done"
    if state.merge == "begin" and not between:
        yield "a merge reads v1 of time 1 and v3 of time 3", state._replace(merge="look")
    elif state.merge == "look":
        looked = state._replace(merge="refused" if between else "put")
        yield "the merge looks for appends in between", looked
    elif state.merge == "put":
        others = tuple(part for part in state.parts if part.value == "v2")
        after = _happened(state, "merge", (Part(1, 3, "v3"), *others))
        yield "the merge commits a part of the times 1 to 3", after._replace(merge="done")


def _happened(state: State, what: str, parts: tuple[Part, ...]) -> State:
    return state._replace(parts=parts, events=(*state.events, Event(what, parts)))


def _winner(parts: tuple[Part, ...]) -> str:
    return max(parts).value
