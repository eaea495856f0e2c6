"""Finds the objects of a table that nothing names: pure, over a snapshot and a listing.

An object is an orphan when no log file names it, dead or alive, and when it was too old to belong
to an append or run still under way at the moment the listing of the log began: by the time in its
own name (a UUIDv7) and by its last-modified time, both. Within ``append.ttl`` and ``commit_ttl``
of its upload a part is published or never (docs/format.md, "Clean-up"). A process that slept may
still name an older one: so what lies under ``_data/`` goes only if it was there before the fence's
transaction (``log.fence``), behind which nothing counts any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from firnline.ids import UUID7, uuid7_time_ms
from firnline.log import dated
from firnline.log.fence import NO_FENCE, Fence
from firnline.operations.prepared.expiry import NOTHING_HELD, Ending, Held, plan_endings
from firnline.paths import KEYS_SUFFIX, TablePaths
from firnline.settings.ages import LEAST_ORPHAN_MS
from firnline.state.snapshot import Snapshot
from firnline.store.base import ObjectMeta
from firnline.store.upload import Upload

Kind = Literal["part", "foreign", "probe", "upload", "keys"]


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object, or an upload, that nothing names."""

    key: str
    """Key; of an upload: key, ``?uploadId=`` and its id."""
    kind: Kind
    """keys: those of an erase that died. foreign: under ``_data/``, with a name that firnline does
    not give. Its last-modified time is all there is to go by, and copying can keep an old one: only
    a person may say that it goes."""
    bytes: int
    """0 for an upload: the store does not say."""
    modified_ms: int
    made_ms: int | None
    """The time in its name; None when there is none."""

    @property
    def may_be_named(self) -> bool:
        """Return True if a log file that lands late could name it."""
        return self.kind in ("part", "foreign")

    def youngest_ms(self, now_ms: int) -> int:
        """The later of its two times; that of its name only where it is not in the future."""
        return dated.named_since(self.made_ms, self.modified_ms, now_ms)


@dataclass(frozen=True, slots=True)
class Passed:
    """How far the fence reaches once this sweep has raised it, by the store's clock."""

    fence: Fence
    """The fence that the sweep's own transaction may state, or that of the snapshot."""
    ms: int
    """Last-modified time of that transaction, unix ms: what is older may go. 0: nothing may."""
    newest_ms: int
    """Last-modified time of the newest transaction, unix ms; 0 without one."""

    def covers(self, modified_ms: int) -> bool:
        """Return True if an object was there before the fence's transaction was."""
        return modified_ms < self.ms

    def lacks_mark(self, modified_ms: int) -> bool:
        """Return True if no transaction came after an object: it would wait for ever."""
        return modified_ms >= self.newest_ms


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The objects that nothing names."""

    seq: int
    """Transaction of the snapshot."""
    began_ms: int
    """Time when the listing of the log began, unix ms: ages count from here."""
    grace_ms: int
    orphans: tuple[Orphan, ...]
    """In order of their keys, at most as many as a run may delete."""
    more: int = 0
    """Further orphans, beyond that."""
    more_bytes: int = 0
    young: int = 0
    """Objects that nothing names yet and that are too young to decide on."""
    young_bytes: int = 0
    prepared: int = 0
    """Parts of prepared changes, on which somebody may still decide."""
    prepared_bytes: int = 0
    endings: tuple[Ending, ...] = ()
    """Prepared changes on which nobody can decide any more, or that left something behind."""
    waiting: int = 0
    """Orphans that a process which slept may still name: they go once the fence has passed them."""
    waiting_bytes: int = 0
    marks: bool = False
    """Nothing was committed since one of those was made: the sweep commits a mark for the fence."""
    fence: Fence = NO_FENCE
    """The fence that all orphans are behind; the sweep states it before it deletes."""

    @property
    def nothing_to_do(self) -> bool:
        """True when there is no orphan, and no prepared change to end."""
        return not (self.orphans or self.endings)

    @property
    def bytes(self) -> int:
        """Bytes of the orphans that are listed."""
        return sum(o.bytes for o in self.orphans)

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals, and every orphan with its size and its age in milliseconds."""
        return {
            "seq": self.seq,
            "began": self.began_ms,
            "grace": self.grace_ms,
            "bytes": self.bytes,
            "more": self.more,
            "more_bytes": self.more_bytes,
            "young": self.young,
            "young_bytes": self.young_bytes,
            "prepared": self.prepared,
            "prepared_bytes": self.prepared_bytes,
            "waiting": self.waiting,
            "waiting_bytes": self.waiting_bytes,
            "endings": [{"id": e.entry.id, "step": e.step} for e in self.endings],
            "orphans": [
                {**asdict(o), "age": self.began_ms - o.youngest_ms(self.began_ms)}
                for o in self.orphans
            ],
        }


def plan_sweep(
    snapshot: Snapshot,
    objects: Iterable[ObjectMeta],
    uploads: Iterable[Upload],
    *,
    began_ms: int,
    grace_ms: int,
    limit: int,
    passed: Passed,
    held: Held = NOTHING_HELD,
) -> SweepPlan:
    """Find the orphans; memory is that of the snapshot and of ``limit`` orphans.

    Args:
        snapshot: read with ``everything=True``: a dead part is named too.
        objects: listings of ``_data/`` and ``_probe/``, and the keys of erases, from after the
            snapshot.
        uploads: multipart uploads under way, and staged files.
        began_ms: wall clock when the listing of the snapshot began.
        grace_ms: age of an orphan; never less than LEAST_ORPHAN_MS, whatever is said.
        limit: orphans to name one by one.
        passed: how far the fence reaches.
        held: the prepared changes, listed before the snapshot was taken.
    """
    grace_ms = max(grace_ms, LEAST_ORPHAN_MS)
    orphans: list[Orphan] = []
    more = more_bytes = young = young_bytes = prepared = prepared_bytes = 0
    waiting = waiting_bytes = 0
    undecided, marks = held.parts, False
    for orphan in _unnamed(snapshot, objects, uploads):
        if orphan.key in undecided:
            prepared, prepared_bytes = prepared + 1, prepared_bytes + orphan.bytes
        elif began_ms - orphan.youngest_ms(began_ms) <= grace_ms:
            young, young_bytes = young + 1, young_bytes + orphan.bytes
        elif orphan.may_be_named and not passed.covers(orphan.modified_ms):
            waiting, waiting_bytes = waiting + 1, waiting_bytes + orphan.bytes
            marks = marks or passed.lacks_mark(orphan.modified_ms)
        elif len(orphans) < limit:
            orphans.append(orphan)
        else:
            more, more_bytes = more + 1, more_bytes + orphan.bytes
    return SweepPlan(
        seq=snapshot.seq,
        began_ms=began_ms,
        grace_ms=grace_ms,
        orphans=tuple(orphans),
        more=more,
        more_bytes=more_bytes,
        young=young,
        young_bytes=young_bytes,
        prepared=prepared,
        prepared_bytes=prepared_bytes,
        endings=plan_endings(
            held, snapshot, began_ms=began_ms, grace_ms=grace_ms, passed_ms=passed.ms
        ),
        waiting=waiting,
        waiting_bytes=waiting_bytes,
        marks=marks or any(map(passed.lacks_mark, held.closed_ms)),
        fence=passed.fence,
    )


def _unnamed(
    snapshot: Snapshot, objects: Iterable[ObjectMeta], uploads: Iterable[Upload]
) -> Iterator[Orphan]:
    paths = snapshot.paths
    for meta in objects:
        # Whoever read what landed too late right before the fence passed it has the grace too:
        # the parts stay until clean-up has deleted the log file.
        if meta.key in snapshot.parts or meta.key in snapshot.behind_parts:
            continue
        kind, made = _kind(paths, meta.key)
        yield Orphan(meta.key, kind, meta.size, meta.modified_ms, made)
    for upload in uploads:
        # Also of a key that is named: aborting does not affect a completed object of that key.
        made = _kind(paths, upload.key)[1]
        yield Orphan(upload.name, "upload", 0, upload.began_ms, made)


def _kind(paths: TablePaths, key: str) -> tuple[Kind, int | None]:
    """Return the kind of an object, and the time in its name."""
    name = key.rpartition("/")[2]
    if key.startswith(paths.data_dir):
        stem = name.removesuffix(".parquet")
        named = stem != name and UUID7.fullmatch(stem)
        if named and not paths.may_be_another_tables(key):
            return "part", uuid7_time_ms(stem)
    elif key == paths.probe(name) and UUID7.fullmatch(name):
        return "probe", uuid7_time_ms(name)
    elif paths.parse_erase_keys(key) is not None:
        return "keys", uuid7_time_ms(name.removesuffix(KEYS_SUFFIX))
    return "foreign", None
