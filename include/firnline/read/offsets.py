"""Choose the appends that a streaming read delivers next (docs/format.md, "Streaming reads").

Appends have no order: a log file may be dated before others that appeared earlier. Transactions
have one, and each append is first folded by exactly one of them. So an offset is a transaction, and
the appends that were delivered although no transaction up to that one has folded them. Both are
tracked by name, never by time: neither clock skew nor a late append causes a gap. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from firnline.errors import StreamBehindError, UsageError
from firnline.log.records import LogContent
from firnline.paths import TablePaths

MOST_SEEN = 50_000
"""Maximum number of appends that an offset may name, about 3 MB: a reader of such a table fetches
as many log files, so it needs a merge."""
BEGIN_AGAIN = (
    "begin again with a new checkpoint: the option startingAt=earliest reads the current table "
    "and then its appends, startingAt=now only new appends"
)
_LOST = {
    "rebuild": "the log was rebuilt",
    "downgrade": "the table was downgraded",
    "clone": "the table was cloned from another one",
}
"""Operations after which appends cannot be matched with those already delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """Progress of the delivery of the initial state."""

    t: int
    """Time of that state, unix ms."""
    after: str = ""
    """Key of the last part delivered; parts are delivered in the order of their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The appends that a stream has delivered."""

    seq: int
    """Transaction up to which every folded append is delivered, or existed before the stream
    began."""
    seen: frozenset[str] = frozenset()
    """Names of other delivered appends."""
    foreign: frozenset[str] = frozenset()
    """Names of log files that clients of version 1 had merged before the stream began."""
    initial: Initial | None = None
    """Progress while the initial state is being delivered; None afterwards."""
    digest: str = field(default="", compare=False)
    """Digest of that transaction (``log.chain``), which no other table has; empty if not known."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark stores: equal offsets have equal texts."""
        form: dict[str, Any] = {"v": 1, "seq": self.seq, "seen": " ".join(sorted(self.seen))}
        if self.foreign:
            form["foreign"] = " ".join(sorted(self.foreign))
        if self.initial is not None:
            form["initial"] = {"t": self.initial.t, "after": self.initial.after}
        if self.digest:
            form["digest"] = self.digest
        return form

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Offset:
        """Parse an offset. Raises UsageError if it is invalid, or of a later version."""
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
                digest=str(plain.get("digest", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"the checkpoint's offset was not written by this version of firnline ({error!r})",
                next_step="upgrade firnline, or begin again with a new checkpoint",
            ) from None


class Record(NamedTuple):
    """The scope of a delete or a change of the schema; the rows are not needed here."""

    id: str
    seq: int
    partitions: tuple[str, ...] | None
    """Globs; None for all."""


@dataclass(frozen=True, slots=True)
class Folds:
    """Names of the log files that one transaction folded, and the records that it committed."""

    first: frozenset[str]
    """Appends that no transaction before it had folded."""
    every: frozenset[str]
    """All appends that it lists as folded."""
    foreign: frozenset[str]
    """Log files that clients of version 1 had merged."""
    op: str
    records: tuple[Record, ...] = ()
    """Its own, and those that it took over from other log files."""

    @classmethod
    def of(cls, content: LogContent, op: str, paths: TablePaths) -> Folds:
        """Return the folds stated in the log file that the transaction publishes."""
        names = {item.p: paths.parse_log(item.p) for item in content.tombstones}
        appends = {item for item in content.tombstones if names[item.p].kind == "append"}
        return cls(
            first=frozenset(short(item.p, paths) for item in appends if item.t == content.t),
            every=frozenset(short(item.p, paths) for item in appends),
            foreign=frozenset(
                short(key, paths) for key, name in names.items() if name.kind == "foreign-merge"
            ),
            op=op,
            records=tuple(Record(d.id, d.seq, d.partitions) for d in content.deletes),
        )


@dataclass(frozen=True, slots=True)
class View:
    """The log of a table at one moment, as far as a stream needs it."""

    seq: int
    """Newest transaction."""
    unfolded: frozenset[str]
    """Names of appends that no transaction has folded."""
    foreign: frozenset[str]
    """Names of log files that clients of version 1 have merged."""
    folds: Mapping[int, Folds]
    """Folds of every transaction after that of the offset."""
    digests: Mapping[int, str] = field(default_factory=dict)
    """Digests of transactions, as far as they are known."""

    def at(self, offset: Offset, seq: int) -> str:
        """Return the digest of the end of a batch; of one without a transaction as it began."""
        return offset.digest if seq == offset.seq else self.digests.get(seq, "")


def short(key: str, paths: TablePaths) -> str:
    """Return the name of a log file as offsets contain it."""
    return key.removeprefix(paths.log_dir).removesuffix(".jsonl")


def long(name: str, paths: TablePaths) -> str:
    """Return the key of a log file."""
    return f"{paths.log_dir}{name}.jsonl"


def time_in(name: str) -> int:
    """Return the time in a log file's name, unix ms."""
    return int(name.partition("_")[0])


def check(offset: Offset, view: View) -> None:
    """Raise StreamBehindError if it cannot be determined which appends are new."""
    if offset.seq > view.seq:
        raise StreamBehindError(
            f"the checkpoint names transaction {offset.seq}, and the newest of the table is "
            f"{view.seq}: it belongs to another table, or the log was lost",
            next_step=BEGIN_AGAIN,
        )
    foreign = view.foreign.union(*(folds.foreign for folds in view.folds.values()))
    if foreign - offset.foreign:
        raise StreamBehindError(
            f"a client of version 1 has merged parts of the table ({min(foreign - offset.foreign)})"
            ", and such clients keep no record of which appends they merged",
            next_step=BEGIN_AGAIN,
        )
    for seq, folds in view.folds.items():
        if folds.op in _LOST:
            raise StreamBehindError(
                f"{_LOST[folds.op]} by transaction {seq}, and it is no longer known which of "
                "its appends are delivered",
                next_step=BEGIN_AGAIN,
            )


def pending(offset: Offset, view: View) -> list[tuple[int, str]]:
    """Return the appends that are not delivered yet, in the order of delivery.

    Each as (transaction that folded it first, name); unfolded ones come last, with the number
    after the newest transaction.
    """
    folded = [
        (seq, name)
        for seq in sorted(view.folds)
        for name in sorted(view.folds[seq].first - offset.seen)
    ]
    return folded + [(view.seq + 1, name) for name in sorted(view.unfolded - offset.seen)]


def advance(offset: Offset, view: View, waiting: Sequence[tuple[int, str]], taken: int) -> Offset:
    """Return the offset after the first ``taken`` of ``pending``."""
    seq = waiting[taken][0] - 1 if taken < len(waiting) else view.seq
    folded = [folds.every for number, folds in view.folds.items() if number <= seq]
    seen = offset.seen.union(name for _, name in waiting[:taken]).difference(*folded)
    if len(seen) > MOST_SEEN:
        raise UsageError(
            f"{len(seen)} appends of the table wait for a merge, and a streaming read would have "
            "to remember each of them",
            next_step="run `firnline merge` and start the query again: it goes on where it was",
        )
    return replace(offset, seq=seq, seen=seen, digest=view.at(offset, seq))


def delivered(start: Offset, end: Offset, folds: Mapping[int, Folds]) -> list[str]:
    """Return the names of the appends between two offsets, whatever happened to them since.

    Args:
        start: the beginning of the batch.
        end: its end.
        folds: folds of every transaction after ``start.seq`` up to ``end.seq``.
    """
    first = (folds[seq].first for seq in range(start.seq + 1, end.seq + 1))
    return sorted(end.seen.union(*first) - start.seen)


def later(offset: Offset, view: View) -> frozenset[str]:
    """Return the appends that are not in the initial state of the stream."""
    return view.unfolded.union(*(folds.first for folds in view.folds.values())) - offset.seen


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one batch; it always has at least one append, or part of the initial state."""

    parts: int | None = None
    bytes: int | None = None

    def fitting(self, sizes: Iterable[tuple[int, int]]) -> int:
        """Return how many leading (parts, bytes) fit. Stops at the first that does not."""
        most_parts = float("inf") if self.parts is None else self.parts
        most_bytes = float("inf") if self.bytes is None else self.bytes
        count = all_parts = all_bytes = 0
        for parts, size in sizes:
            all_parts, all_bytes = all_parts + parts, all_bytes + size
            if count and (all_parts > most_parts or all_bytes > most_bytes):
                break
            count += 1
        return count
