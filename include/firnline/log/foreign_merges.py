"""Merges by clients of log version 1 of parts that were dead already (docs/v1-clients.md).

Such a client reads the log, writes its part, and then writes its log file whatever has happened in
between: nothing fences it. Where a transaction has replaced, deleted from, dropped or erased one of
its inputs meanwhile, the rows of that input are in the new part once more. The log says so: two log
files bury one part at different times, and nobody who knows the one burial makes the other. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firnline.log.reader import LogObject
from firnline.log.records import LogContent, Marker
from firnline.log.union import is_live
from firnline.paths import transaction_time

Placed = Callable[[str], bool]
"""Returns True if a part's marker states its place in the order of insertion (``o``): these clients
write no such markers."""


@dataclass(frozen=True, slots=True)
class ForeignMerge:
    """A merge, as a log file of such a client states it."""

    log: str
    """Key of the log file."""
    t: int
    """Its time: that of the new parts, and of the tombstones of the inputs."""
    made: frozenset[str]
    inputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Doubled:
    """A live part with rows that are elsewhere too, or that were deleted."""

    part: str
    log: str
    """Log file of the merge that made it."""
    of: str
    """One of the parts in it that were dead, or that another merge has buried too."""
    since: int
    """The first time at which that part was buried."""


@dataclass(frozen=True, slots=True)
class ForeignMerges:
    """The merges of such clients that a log names, and which of their parts are not right."""

    merges: tuple[ForeignMerge, ...] = ()
    buried: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Times at which log files bury the inputs."""
    by_us: frozenset[str] = frozenset()
    """Inputs that the log file of a transaction buries at its own time."""
    wrong: Mapping[str, tuple[ForeignMerge, str]] = field(default_factory=dict)
    """Part -> the merge that made it, and an input that another log file buries too."""

    def doubled(self, parts: Mapping[str, Marker]) -> tuple[Doubled, ...]:
        """Return the live ones among the wrong parts.

        Args:
            parts: every part of the table in its final state.
        """
        doubled = []
        for path, (merge, dead) in sorted(self.wrong.items()):
            marker = parts.get(path)
            if marker is not None and is_live(marker, None):
                doubled.append(Doubled(path, merge.log, dead, min(self.buried[dead])))
        return tuple(doubled)

    def inputs_only_here(self, part: str) -> frozenset[str]:
        """Return the parts whose rows a wrong part has and that nothing else has buried.

        Without the part they would be live. Inputs that are wrong parts themselves are taken apart.
        """
        inputs: set[str] = set()
        todo, seen = [part], {part}
        while todo:
            name = todo.pop()
            for merge in self.merges:
                for path in merge.inputs if name in merge.made else ():
                    if path in self.wrong and path not in seen:
                        seen.add(path)
                        todo.append(path)
                    elif path not in self.wrong and self._is_only_theirs(path):
                        inputs.add(path)
        return frozenset(inputs)

    def _is_only_theirs(self, path: str) -> bool:
        theirs = {m.t for m in self.merges if path in m.inputs and m.made & self.wrong.keys()}
        return self.buried[path] <= theirs and path not in self.by_us


NONE = ForeignMerges()


def find(
    listing: Mapping[str, LogObject],
    contents: Mapping[str, LogContent],
    others: Sequence[Mapping[str, Marker]] = (),
) -> ForeignMerges:
    """Return the merges of clients of log version 1, and which of them met a dead part.

    Without a log file of such a merge this costs nothing.

    Args:
        listing: log files.
        contents: those that were read.
        others: unions of further markers: of a checkpoint, of transactions.
    """
    read = [item.name for key, item in listing.items() if key in contents]
    theirs = {name.key: contents[name.key] for name in read if name.kind == "foreign-merge"}
    if not theirs:
        return NONE
    ours = {name.key: contents[name.key] for name in read if name.seq}
    rest = {name.key: contents[name.key] for name in read if name.key not in theirs}
    merges = _merges(theirs, rest, _placed(ours, others))
    inputs = frozenset[str]().union(*(merge.inputs for merge in merges))
    buried, by_us = _buried(inputs, contents, others), _own(inputs, ours)
    wrong: dict[str, tuple[ForeignMerge, str]] = {}
    for merge in merges:
        # A transaction of the very same millisecond says so by its own log file.
        twice = sorted(p for p in merge.inputs if buried[p] - {merge.t} or p in by_us)
        if twice:
            wrong |= dict.fromkeys(merge.made, (merge, twice[0]))
    return ForeignMerges(merges, buried, by_us, _with_descendants(merges, wrong))


def _placed(ours: Mapping[str, LogContent], others: Sequence[Mapping[str, Marker]]) -> Placed:
    stated = {m.p for content in ours.values() for m in content.markers if m.o is not None}

    def is_placed(path: str) -> bool:
        elsewhere = (parts.get(path) for parts in others)
        return path in stated or any(m is not None and m.o is not None for m in elsewhere)

    return is_placed


def _merges(
    theirs: Mapping[str, LogContent], rest: Mapping[str, LogContent], is_placed: Placed
) -> tuple[ForeignMerge, ...]:
    """Return the merges that log files state, each once.

    A new part has the time of its inputs' tombstones. But a log file also repeats what it has
    folded: merges of ours, whose parts have a place in the order of insertion and whose log files
    it names, and appends of that very millisecond. What it has made itself nobody else names but
    who has folded it.
    """
    groups = [
        (key, *group) for key, content in sorted(theirs.items()) for group in _groups(content)
    ]
    named = _named(frozenset[str]().union(*(made for *_, made in groups)), rest)
    merges: dict[tuple[int, frozenset[str]], ForeignMerge] = {}
    for key, t, dead, made in groups:
        repeated = {transaction_time(stone.p) for stone in theirs[key].tombstones}
        new = frozenset(
            p for p in made if not is_placed(p) and all(key in folds for folds in named.get(p, ()))
        )
        if new and t not in repeated:
            merges.setdefault((t, new), ForeignMerge(key, t, new, dead - new))
    return tuple(merges.values())


def _groups(content: LogContent) -> Iterator[tuple[int, frozenset[str], frozenset[str]]]:
    """Yield the times at which a log file buries parts, these parts, and those of that time."""
    dead: dict[int, set[str]] = {}
    for marker in content.markers:
        if marker.tmb is not None:
            dead.setdefault(marker.tmb, set()).add(marker.p)
    made: dict[int, set[str]] = {}
    for marker in content.markers:
        if marker.t in dead:
            made.setdefault(marker.t, set()).add(marker.p)
    yield from ((t, frozenset(dead[t]), frozenset(new)) for t, new in made.items())


def _named(
    paths: frozenset[str], rest: Mapping[str, LogContent]
) -> dict[str, list[frozenset[str]]]:
    """Return for each of some parts what the log files that name it have folded."""
    folds_by_part: dict[str, list[frozenset[str]]] = {}
    for content in rest.values():
        names = [marker.p for marker in content.markers if marker.p in paths]
        folds = frozenset(stone.p for stone in content.tombstones) if names else frozenset()
        for name in names:
            folds_by_part.setdefault(name, []).append(folds)
    return folds_by_part


def _buried(
    paths: frozenset[str],
    contents: Mapping[str, LogContent],
    others: Iterable[Mapping[str, Marker]],
) -> dict[str, frozenset[int]]:
    """Return the times at which log files bury some parts."""
    times_by_path: dict[str, set[int]] = {path: set() for path in paths}
    for content in contents.values():
        for marker in content.markers:
            if marker.tmb is not None and marker.p in paths:
                times_by_path[marker.p].add(marker.tmb)
    for parts in others:
        for path in paths:
            marker_of = parts.get(path)
            if marker_of is not None and marker_of.tmb is not None:
                times_by_path[path].add(marker_of.tmb)
    return {path: frozenset(times) for path, times in times_by_path.items()}


def _own(paths: frozenset[str], ours: Mapping[str, LogContent]) -> frozenset[str]:
    """Return those of some parts that transactions bury themselves, by their own log files."""
    return frozenset(
        marker.p
        for content in ours.values()
        for marker in content.markers
        if marker.tmb == content.t and marker.p in paths
    )


def _with_descendants(
    merges: tuple[ForeignMerge, ...], wrong: dict[str, tuple[ForeignMerge, str]]
) -> dict[str, tuple[ForeignMerge, str]]:
    """Add the parts that such clients have made out of wrong ones since."""
    while True:
        more = {
            path: (merge, wrong[next(iter(sorted(merge.inputs & wrong.keys())))][1])
            for merge in merges
            if merge.inputs & wrong.keys()
            for path in merge.made - wrong.keys()
        }
        if not more:
            return wrong
        wrong |= more


def may_hide_one(
    covered: Iterable[str],
    listing: Mapping[str, LogObject],
    contents: Mapping[str, LogContent],
    parts: Mapping[str, Marker],
) -> bool:
    """Return True if a checkpoint has to be left aside, because single log files may tell more.

    It is a union, and keeps one time of death of a part. If it covers a merge of such a client, and
    a newer log file buries a part that is dead in it, both times have to be seen.

    Args:
        covered: the log files of the checkpoint.
        listing: all log files.
        contents: those that were read besides.
        parts: of the checkpoint.
    """
    if all(listing[key].name.kind != "foreign-merge" for key in covered):
        return False
    for content in contents.values():
        for marker in content.markers:
            marker_before = parts.get(marker.p) if marker.tmb is not None else None
            if marker_before is None or marker_before.tmb is None:
                continue
            if marker_before.tmb != marker.tmb or marker.tmb == content.t:
                return True
    return False
