"""The plan of a clone: pure, and stored at the target before anything is copied.

A run that died is completed by the next one from what is written there, and not from the source,
which may have changed since: parts of one state and log files of another do not make a table.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from firnline.commit import fold
from firnline.errors import LogCorruptError, UsageError
from firnline.log import chain, codec, txn_file
from firnline.log.codec import UNREADABLE
from firnline.log.erases import without_erases
from firnline.log.imports import last_listed, records_of, without_lists
from firnline.log.reader import LogRead, time_after
from firnline.log.records import LogContent, Marker, TxnMark
from firnline.log.txn_file import Counts, RunIdentity, TxnHeader
from firnline.paths import Root, TablePaths
from firnline.properties.record import Properties, PropertiesRecord
from firnline.state.snapshot import Snapshot, standing

OP = "clone"
VERSION = 1


class Sized(msgspec.Struct, frozen=True, array_like=True):
    """An object to copy."""

    key: str
    """Key relative to the table's prefix: ``_data/…``."""
    bytes: int


class ClonePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The objects to copy, and the transaction to commit in the end."""

    v: int = VERSION
    source: str
    """Root URL."""
    history: bool
    seq: int
    """Newest transaction of the source."""
    parts: list[Sized]
    logs: list[str] = []
    """With the history: log files; the one that every reader reads first comes first."""
    others: list[str] = []
    """With the history: transactions, certificates and the list of imported files."""
    rows: int | None = None
    """Rows of the live parts; None when a part does not state them."""
    transaction: bytes = b""
    """Without the history: the file to create under ``_txn/``."""
    grace: int | None = None
    """The least ``cleanup.grace`` that the source's log names, ms; None if it names none."""

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals."""
        return {
            "source": self.source,
            "history": self.history,
            "seq": self.seq,
            "parts": len(self.parts),
            "bytes": sum(part.bytes for part in self.parts),
            "rows": self.rows,
            "logs": len(self.logs),
            "others": len(self.others),
        }


_PLAN = msgspec.json.Decoder(ClonePlan)


def encode(plan: ClonePlan) -> bytes:
    """Return the bytes of the plan's object, sealed like a log file."""
    return codec.seal(b"clone", msgspec.json.encode(plan))


def decode(key: str, data: bytes) -> ClonePlan:
    """Return the plan that ``encode`` made. Raises LogCorruptError."""
    pieces = data.split(b"\n", 2)
    try:
        if len(pieces) < 3 or pieces[0] != b"clone":
            raise LogCorruptError(f"{key} is not the plan of a clone", next_step="see below")
        codec.check_seal(key, 2, *pieces)
        return _PLAN.decode(pieces[2])
    except (LogCorruptError, *UNREADABLE) as error:
        raise LogCorruptError(
            f"{key}, the plan of a clone that was begun, does not read",
            next_step="delete everything at the clone's target and run it again",
        ) from error


def refuse_place(source: Root, target: Root) -> None:
    """Raise UsageError for places between which the store cannot copy, or that are one."""
    if (source.scheme, source.bucket) != (target.scheme, target.bucket):
        where = "folder" if source.scheme == "file" else "bucket"
        raise UsageError(
            f"{target.url} and {source.url} are not in one {where}, and no server copies from one "
            "to the other",
            next_step="copy all objects by another tool, then run "
            f"`firnline relocate {shlex.quote(target.url)}`",
        )
    inside, outside = (f"{root.prefix}/" if root.prefix else "" for root in (source, target))
    if inside.startswith(outside) or outside.startswith(inside):
        raise UsageError(
            f"{target.url} and {source.url} lie in each other",
            next_step="clone to a place beside the source",
        )


def without_history(
    source: Snapshot,
    root: str,
    target: TablePaths,
    txn: str,
    now_ms: int,
    run: RunIdentity,
    properties: Properties,
) -> ClonePlan:
    """Plan a clone of the live parts in one transaction, numbered after the source's.

    Sequences stay, so that exactly the deletes and changes of the schema that are pending on a part
    are pending on its copy, and none on what is appended to the clone.

    Args:
        source: read without a checkpoint.
        root: URL of the source.
        target: paths of the clone.
        txn: UUIDv7 of the transaction.
        now_ms: wall clock.
        run: who clones.
        properties: in force in the source. Nobody is under way in the clone by older ones.
    """
    folded = _folded(source)
    live = [_copied(m, source.paths, target) for m in folded.markers if m.tmb is None]
    records = [*folded.deletes]
    numbers = [source.seq, *(m.q or 0 for m in live), *(d.seq for d in records)]
    seq, t = max(numbers) + 1, time_after((i.name for i in source.listing.values()), now_ms)
    content = LogContent(
        t=t,
        schema=dict(source.schema),
        markers=live,
        deletes=records,
        properties=[PropertiesRecord(seq, t, properties)],
        # Certificates and lists of imported files are objects of the source.
        other=without_lists(without_erases(folded.other)),
        # The clone has none of the states before it: asking for one is an error.
        x=TxnMark(seq, txn, OP, t - 1, ()),
    )
    header = TxnHeader(
        seq=seq,
        txn=txn,
        op=OP,
        base=seq - 1,
        t=t,
        log=target.txn_log(t, seq, txn),
        run=run,
        counts=_counts(live),
        why=f"of {root}",
        properties=properties,
    )
    start = len(target.data_dir.removesuffix("_data/"))
    # A history of its own: the digests of the source's states are not its past.
    made = chain.link(header, codec.encode(content), content.x, "", target)
    return ClonePlan(
        source=root,
        history=False,
        seq=source.seq,
        parts=[Sized(m.p[start:], m.b) for m in live],
        rows=_rows(live),
        transaction=txn_file.encode(made.header, made.log_file),
    )


def _counts(live: Sequence[Marker]) -> Counts:
    rows, size = sum(m.n or 0 for m in live), sum(m.b for m in live)
    return Counts(
        parts_in=len(live),
        parts_out=len(live),
        rows_in=rows,
        rows_out=rows,
        bytes_in=size,
        bytes_out=size,
    )


def _rows(live: Iterable[Marker]) -> int | None:
    """Return the rows of the parts; None when a part does not state them."""
    rows = [marker.n for marker in live]
    return None if None in rows else sum(n for n in rows if n is not None)


def _folded(source: Snapshot) -> fold.Folded:
    """Return the union of all log files that count, in its state of the snapshot."""
    keys = tuple(standing(LogRead(source.listing, source.contents)))
    return fold.fold(
        source,
        keys,
        0,
        own=frozenset(),
        purged=source.purged,
        delete_cutoff=-1,  # every record is carried: the clone itself finds out which are over
        fence=source.fence,
    )


def _copied(marker: Marker, source: TablePaths, target: TablePaths) -> Marker:
    """Return the marker of the copy: same name, same place in the order of insertion."""
    return msgspec.structs.replace(
        marker,
        p=target.data_dir + marker.p.removeprefix(source.data_dir),
        o=marker.t if marker.o is None else marker.o,
    )


def with_history(
    source: Snapshot,
    root: str,
    objects: Mapping[str, int],
    transactions: Iterable[str],
    certificates: Iterable[str],
) -> ClonePlan:
    """Plan a clone of every existing object that log files name, and of the log files themselves.

    Args:
        source: read with ``everything``.
        root: URL of the source.
        objects: key -> bytes of what lies under ``_data/``.
        transactions: keys under ``_txn/``.
        certificates: keys under ``_erase/``.
    """
    paths = source.paths
    start = len(paths.data_dir.removesuffix("_data/"))
    upto = paths.txn(source.seq)
    last = last_listed(records_of(source.other))
    lists = [] if last is None else [paths.imported(last.id)]
    # One that nobody has published is in the state, and no object: its transaction says it.
    published = source.listing.keys() - {source.unpublished}
    logs = sorted(published, key=lambda k: (source.listing[k].name.seq, k), reverse=True)
    return ClonePlan(
        source=root,
        history=True,
        seq=source.seq,
        parts=[Sized(p[start:], m.b) for p, m in source.parts.items() if p in objects],
        logs=[key[start:] for key in logs],
        # A transaction committed since then is in no part of the state.
        others=[
            *(k[start:] for k in transactions if k <= upto),
            *(k[start:] for k in (*certificates, *lists)),
        ],
        rows=_rows(source.live.values()),
        grace=min((record.values.grace for record in source.properties), default=None),
    )
