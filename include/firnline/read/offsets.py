"""Which appends a streaming read delivers next (docs/format.md, "Streaming reads"); pure.

Appends have no order: a log file may be dated before others that appeared earlier. Transactions
have one, and each append is folded by a first one of them. So an offset is a transaction, and the
appends that were delivered although no transaction up to that one has folded them. Both kinds of
growth are counted by names, never by time: neither clock skew nor a late append is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from firnline.errors import StreamBehindError, UsageError
from firnline.log.records import LogContent
from firnline.paths import TablePaths

MOST_SEEN = 50_000
"""Appends that an offset may name, some 3 MB: whoever reads such a table fetches as many log
files, so it wants a merge."""
ANEW = (
    "begin anew with a new checkpoint: the option startingAt=earliest reads the table as it is "
    "and then its appends, startingAt=now only what comes"
)
_LOST = {
    "rebuild": "the log was rebuilt",
    "downgrade": "the table was downgraded",
    "clone": "the table was cloned from another one",
}
"""Operations after which nobody can say which append is which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """How far the state at the beginning is delivered."""

    t: int
    """Time of that state, unix ms."""
    after: str = ""
    """Key of the last part delivered; parts come in the order of their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """What a stream has delivered."""

    seq: int
    """Every append that transactions up to this one have folded is delivered, or was there before
    the stream began."""
    seen: frozenset[str] = frozenset()
    """Names of other appends that are."""
    foreign: frozenset[str] = frozenset()
    """Names of log files that clients of version 1 had merged before the stream began."""
    initial: Initial | None = None
    """While the state at the beginning is being delivered."""

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it: equal offsets have equal texts."""
        found: dict[str, Any] = {"v": 1, "seq": self.seq, "seen": " ".join(sorted(self.seen))}
        if self.foreign:
            found["foreign"] = " ".join(sorted(self.foreign))
        if self.initial is not None:
            found["initial"] = {"t": self.initial.t, "after": self.initial.after}
        return found

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Offset:
        """Raises UsageError for what is no offset, or that of a later version."""
        try:
            if plain["v"] != 1:
                raise ValueError(plain["v"])
            initial = plain.get("initial")
            return cls(
                seq=int(plain["seq"]),
                seen=frozenset(plain["seen"].split()),
                foreign=frozenset(plain.get("foreign", "").split()),
                initial=None
                if initial is None
                else Initial(t=initial["t"], after=initial["after"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the checkpoint's offset is none that this firnline has written ({error!r})",
                next_step="upgrade firnline, or begin anew with a new checkpoint",
            ) from None


@dataclass(frozen=True, slots=True)
class Folds:
    """What one transaction folded: names of log files."""

    first: frozenset[str]
    """Appends that no transaction before it had folded."""
    every: frozenset[str]
    """All appends that it says are folded."""
    foreign: frozenset[str]
    """Log files that clients of version 1 had merged."""
    op: str

    @classmethod
    def of(cls, content: LogContent, op: str, paths: TablePaths) -> Folds:
        """From the log file that the transaction publishes."""
        names = {stone.p: paths.parse_log(stone.p) for stone in content.tombstones}
        appends = {stone for stone in content.tombstones if names[stone.p].kind == "append"}
        return cls(
            first=frozenset(short(stone.p, paths) for stone in appends if stone.t == content.t),
            every=frozenset(short(stone.p, paths) for stone in appends),
            foreign=frozenset(
                short(key, paths) for key, name in names.items() if name.kind == "foreign-merge"
            ),
            op=op,
        )


@dataclass(frozen=True, slots=True)
class View:
    """What a table shows at one moment."""

    seq: int
    """Newest transaction."""
    unfolded: frozenset[str]
    """Names of appends that no transaction has folded."""
    foreign: frozenset[str]
    """Names of log files that clients of version 1 have merged."""
    folds: Mapping[int, Folds]
    """Of every transaction after that of the offset."""


def short(key: str, paths: TablePaths) -> str:
    """The name of a log file, as offsets hold it."""
    return key.removeprefix(paths.log_dir).removesuffix(".jsonl")


def long(name: str, paths: TablePaths) -> str:
    """The key of a log file."""
    return f"{paths.log_dir}{name}.jsonl"


def time_in(name: str) -> int:
    """Unix ms that a log file's name is dated."""
    return int(name.partition("_")[0])


def check(offset: Offset, view: View) -> None:
    """Raise StreamBehindError where it cannot be told what is new."""
    if offset.seq > view.seq:
        raise StreamBehindError(
            f"the checkpoint speaks of transaction {offset.seq}, and the newest of the table is "
            f"{view.seq}: it belongs to another table, or the log was lost",
            next_step=ANEW,
        )
    foreign = view.foreign.union(*(folds.foreign for folds in view.folds.values()))
    if foreign - offset.foreign:
        raise StreamBehindError(
            f"a client of version 1 has merged parts of the table ({min(foreign - offset.foreign)})"
            ", and such clients keep no record of which appends they took in",
            next_step=ANEW,
        )
    for seq, folds in view.folds.items():
        if folds.op in _LOST:
            raise StreamBehindError(
                f"{_LOST[folds.op]} by transaction {seq}, and which of its appends are delivered "
                "cannot be told any more",
                next_step=ANEW,
            )


def pending(offset: Offset, view: View) -> list[tuple[int, str]]:
    """Appends that are not delivered, in the order in which they will be.

    Returns (transaction that folded it first, name); those that none has folded stand last, under
    the number after the newest.
    """
    found = [
        (seq, name)
        for seq in sorted(view.folds)
        for name in sorted(view.folds[seq].first - offset.seen)
    ]
    return found + [(view.seq + 1, name) for name in sorted(view.unfolded - offset.seen)]


def advance(offset: Offset, view: View, waiting: Sequence[tuple[int, str]], taken: int) -> Offset:
    """The offset after the first ``taken`` of ``pending``."""
    seq = waiting[taken][0] - 1 if taken < len(waiting) else view.seq
    folded = [folds.every for number, folds in view.folds.items() if number <= seq]
    seen = offset.seen.union(name for _, name in waiting[:taken]).difference(*folded)
    if len(seen) > MOST_SEEN:
        raise UsageError(
            f"{len(seen)} appends of the table wait for a merge, and a streaming read would have "
            "to remember each of them",
            next_step="run `firnline merge` and start the query again: it goes on where it was",
        )
    return replace(offset, seq=seq, seen=seen)


def delivered(start: Offset, end: Offset, folds: Mapping[int, Folds]) -> list[str]:
    """Names of the appends between two offsets, whatever has become of them since.

    Args:
        start: where the batch begins.
        end: where it ends.
        folds: of every transaction after ``start.seq`` up to ``end.seq``.
    """
    first = (folds[seq].first for seq in range(start.seq + 1, end.seq + 1))
    return sorted(end.seen.union(*first) - start.seen)


def later(offset: Offset, view: View) -> frozenset[str]:
    """Appends that are not in the state at the stream's beginning."""
    return view.unfolded.union(*(folds.first for folds in view.folds.values())) - offset.seen


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one batch; at least one append, or one part of the first state, is always in it."""

    parts: int | None = None
    bytes: int | None = None

    def fitting(self, sizes: Iterable[tuple[int, int]]) -> int:
        """How many of the first (parts, bytes) are within the bounds. Stops where they are met."""
        most_parts = float("inf") if self.parts is None else self.parts
        most_bytes = float("inf") if self.bytes is None else self.bytes
        add: Callable[[tuple[int, int], tuple[int, int]], tuple[int, int]] = _sum
        count = 0
        for parts, size in accumulate(sizes, add):
            if count and (parts > most_parts or size > most_bytes):
                break
            count += 1
        return count


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]
