"""What a streaming read still can read of the parts that appends brought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import msgspec

from firnline.errors import StreamBehindError
from firnline.log.records import LogContent, Marker
from firnline.properties.record import PropertiesRecord
from firnline.read.offsets import ANEW, Folds, long
from firnline.read.plan import ReadOptions, ReadPlan, plan_read
from firnline.settings.load import TableSettings
from firnline.state.snapshot import Snapshot
from firnline.types.sql import fold_name

_RECORD = {"delete", "erase", "replace", "evolve"}
"""Operations that commit records without which parts of before cannot be read."""


def forgotten_before(
    folds: Mapping[int, Folds], snapshot: Snapshot, settings: TableSettings, now_ms: int
) -> int:
    """Records of parts tombstoned at or before this time (unix ms) may be forgotten.

    Their parts are still there where nobody cleans up; rows that must not be seen are in them.

    Args:
        folds: of the transactions since the stream's offset.
        snapshot: the newest state.
        settings: in force.
        now_ms: wall clock.
    """
    if not any(one.op in _RECORD for one in folds.values()):
        return 0
    shortest = now_ms - settings.append.ttl - settings.cleanup.grace
    return max([shortest, *_by_properties_of_before(folds, snapshot.properties)])


def _by_properties_of_before(
    folds: Mapping[int, Folds], records: Sequence[PropertiesRecord]
) -> Iterator[int]:
    """What was forgotten by the shorter times of before a change, as long ago as the change."""
    for seq in (seq for seq, one in folds.items() if one.op == "properties"):
        older = [record for record in records if record.seq < seq]
        newer = next(record for record in records if record.seq >= seq)
        changed = newer.t if newer.seen is None else newer.seen
        # Of one that nobody goes by any more the times are not known: anything may be forgotten.
        yield changed - (older[-1].values.append_ttl + older[-1].values.grace if older else 0)


def of_append(
    name: str, content: LogContent, snapshot: Snapshot, forgotten_ms: int
) -> Iterator[Marker]:
    """The parts of an append as they stand now. Raises StreamBehindError."""
    known = {fold_name(column) for column in snapshot.schema}
    key = snapshot.paths.parse_log(long(name, snapshot.paths))
    stated = snapshot.line_of(key, content)
    gone = [column for column in stated if fold_name(column) not in known]
    if gone:
        raise StreamBehindError(
            f"append {name} has the column {gone[0]}, which was renamed or dropped before this "
            "stream has read it",
            next_step=ANEW,
        )
    for marker in content.markers:
        state = snapshot.parts.get(marker.p)
        if state is None or (state.tmb is not None and state.tmb <= snapshot.purged):
            raise _behind(marker, "and deleted ")
        yield checked(state, snapshot, forgotten_ms)


def checked(state: Marker, snapshot: Snapshot, forgotten_ms: int) -> Marker:
    """The part itself. Raises StreamBehindError: see ``forgotten_before``."""
    if state.tmb is not None and snapshot.effective(state.tmb) <= forgotten_ms:
        raise _behind(state, "")
    return state


def check_initial(folds: Mapping[int, Folds], snapshot: Snapshot) -> None:
    """Raise StreamBehindError where parts of the first state may have other columns by now.

    A lazy change of columns leaves a record by which they can be read.
    """
    recorded = {change.seq for change in snapshot.changes}
    for seq, one in folds.items():
        if one.op in ("evolve", "schema-fix") and seq not in recorded:
            raise StreamBehindError(
                f"transaction {seq} has changed the table's columns before the state that this "
                "stream began with was delivered",
                next_step=ANEW,
            )


def planned(
    snapshot: Snapshot, markers: Iterable[Marker], settings: TableSettings, options: ReadOptions
) -> ReadPlan:
    """A read of these parts alone, dead or alive, every row of them that no delete hides."""
    paths, globs = snapshot.paths, options.partitions
    alive = {
        marker.p: msgspec.structs.replace(marker, tmb=None)
        for marker in markers
        if not globs or any(fnmatchcase(paths.parse_part(marker.p).partition, g) for g in globs)
    }
    return plan_read(
        replace(snapshot, parts=alive), settings, replace(options, dedup=False, partitions=())
    )


def _behind(marker: Marker, deleted: str) -> StreamBehindError:
    return StreamBehindError(
        f"part {marker.p} was merged or dropped {deleted}before this stream has read it: the "
        "stream is behind by more than cleanup.grace",
        next_step=ANEW,
    )
