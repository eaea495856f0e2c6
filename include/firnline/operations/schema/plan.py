"""Plans the repair of a schema conflict: wrong log files, wrong parts, and their replacements.

Two steps, both pure: ``aim`` says from the log which log files state a wrong type and of which
parts the footers have to be read; ``plan_schema_fix`` says from these footers which parts are
rewritten. A marker does not say the types of its part; its log file does, for all its parts, and
may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firnline.errors import UsageError
from firnline.log.records import Marker
from firnline.operations.requests import FIXED_REQUESTS, upload_requests
from firnline.operations.schema.repairs import (
    PartFix,
    as_it_is,
    line_of,
    part_fix,
    refuse_deletes,
    wrong_files,
)
from firnline.operations.schema.target import LineSource, Target, lines, live_parts, source_of
from firnline.parquet.footers import FooterFacts
from firnline.state.holds import Held
from firnline.state.snapshot import Snapshot
from firnline.types.sql import fold_name

_NAMED = 1_000


@dataclass(frozen=True, slots=True)
class Aim:
    """The subject of a repair, as far as the log tells."""

    targets: tuple[Target, ...]
    log_files: tuple[str, ...]
    """Log files whose schema line is wrong."""
    suspects: tuple[Marker, ...]
    """Live parts whose footers decide."""
    keyed: bool = False
    """The table has a primary key: of parts that were inserted at one time only the names tell
    which came later, so all of them are rewritten or none."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part whose footer does not say its columns."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class SchemaFixPlan:
    """The plan of a repair."""

    seq: int
    """Transaction of the snapshot it was made from."""
    aim: Aim
    sources: tuple[LineSource, ...]
    """The log files that are folded into one with the right line: those that state something wrong,
    and those that do not state a column of their parts which no other log file states either."""
    rewrites: tuple[PartFix, ...]
    unreadable: tuple[Unreadable, ...]
    found: Mapping[str, Mapping[str, int]]
    """Column -> type -> parts that hold it, of those that were looked at."""
    renamed: Mapping[str, str]
    """New column -> type, of the columns that parts get under another name."""

    @property
    def log_files(self) -> tuple[str, ...]:
        """Keys of ``sources``."""
        return tuple(source.key for source in self.sources)

    @property
    def nothing_to_do(self) -> bool:
        """Return True if no log file states a wrong type, and no checked part holds one."""
        return not self.sources and not self.rewrites

    @property
    def bytes_in(self) -> int:
        """Bytes to read, and about as many to write."""
        return sum(fix.marker.b for fix in self.rewrites)

    @property
    def requests(self) -> int:
        """Upper estimate of store requests; reading the log not counted."""
        if self.nothing_to_do:
            return len(self.aim.suspects)
        uploads = sum(upload_requests(fix.marker.b) for fix in self.rewrites)
        return len(self.aim.suspects) + len(self.rewrites) + uploads + FIXED_REQUESTS

    def to_json(self) -> dict[str, Any]:
        """Plain data; at most 1,000 log files and parts by name."""
        return {
            "seq": self.seq,
            "columns": [target.to_json() for target in self.aim.targets],
            "log_files": [
                {"key": source.key, "t": source.t, "writer": source.writer}
                for source in self.sources[:_NAMED]
            ],
            "log_file_count": len(self.sources),
            "parts_checked": len(self.aim.suspects),
            "parts_to_rewrite": len(self.rewrites),
            "types_found": {column: dict(types) for column, types in self.found.items()},
            "unreadable": [{"key": u.key, "message": u.message} for u in self.unreadable[:_NAMED]],
            "bytes_in": self.bytes_in,
            "requests": self.requests,
        }


def aim(
    snapshot: Snapshot, targets: Sequence[Target], *, all_parts: bool, keyed: bool = False
) -> Aim:
    """Find the wrong log files, and the parts whose footers have to be read.

    Args:
        snapshot: the state, read ``tolerant``.
        targets: see ``target.targets_of``.
        all_parts: suspect every live part, not only those of log files that are wrong.
        keyed: the table has a primary key.
    """
    files = wrong_files(snapshot, targets)
    parts = snapshot.live if all_parts else live_parts(snapshot, files)
    if keyed and not all_parts:
        times = {_unit(marker) for marker in parts.values()}
        parts = {key: marker for key, marker in snapshot.live.items() if _unit(marker) in times}
    return Aim(tuple(targets), files, tuple(parts[key] for key in sorted(parts)), keyed)


def _unit(marker: Marker) -> tuple[str, tuple[int, int]]:
    """Return the same for parts whose order only their names tell: folder, insertion time."""
    return marker.p.rpartition("/")[0], marker.order()


def plan_schema_fix(
    snapshot: Snapshot, planned: Aim, footers: Iterable[FooterFacts]
) -> SchemaFixPlan:
    """Decide which parts are rewritten.

    Args:
        snapshot: what ``planned`` was made from.
        planned: what the repair is about.
        footers: of ``planned.suspects``; types with those of the targets known.

    Raises:
        UsageError: parts would get one new column with two types, or a column that they have; log
            files that are folded contradict each other in another column; a delete that is pending
            compares a column with a value that is not valid for its new type.
    """
    changed = [target.column for target in planned.targets]
    Held.of(snapshot).refuse_columns("the repair is of", changed)
    by_key = {marker.p: marker for marker in planned.suspects}
    fixes: dict[str, PartFix | None] = {}
    read: dict[str, FooterFacts] = {}
    unreadable: list[Unreadable] = []
    forms = {target.column: Counter[str]() for target in planned.targets}
    holding: dict[str, set[str]] = {target.folded: set() for target in planned.targets}
    for facts in footers:
        if facts.error is not None:
            unreadable.append(Unreadable(facts.key, facts.error))
            continue
        columns = snapshot.columns_of(by_key[facts.key])
        for name in filter(None, map(columns.column, facts.columns)):
            holding.get(fold_name(name), set()).add(facts.key)
        read[facts.key] = facts
        fixes[facts.key] = part_fix(snapshot, by_key[facts.key], facts, planned.targets, forms)
    rewrites = _rewrites(snapshot, planned, fixes, read)
    renamed = _renamed(snapshot, planned.targets, rewrites)
    files = (*planned.log_files, *_silent_files(snapshot, planned, holding))
    plan = SchemaFixPlan(
        seq=snapshot.seq,
        aim=planned,
        sources=tuple(source_of(snapshot, key) for key in dict.fromkeys(files)),
        rewrites=tuple(rewrites),
        unreadable=tuple(unreadable),
        found=forms,
        renamed=renamed,
    )
    line = line_of(snapshot, planned.targets, renamed, plan.log_files)
    refuse_deletes(snapshot, planned.targets, line)
    return plan


def _rewrites(
    snapshot: Snapshot,
    planned: Aim,
    fixes: Mapping[str, PartFix | None],
    read: Mapping[str, FooterFacts],
) -> list[PartFix]:
    """Return the wrong parts, and with a primary key those that were inserted with them."""
    wrong = {_unit(fix.marker) for fix in fixes.values() if fix is not None}
    rewrites: list[PartFix] = []
    for marker in planned.suspects:
        fix = fixes.get(marker.p)
        if fix is None and planned.keyed and marker.p in read and _unit(marker) in wrong:
            fix = as_it_is(snapshot, marker, read[marker.p])
        if fix is not None:
            rewrites.append(fix)
    return rewrites


def _silent_files(snapshot: Snapshot, planned: Aim, holding: Mapping[str, set[str]]) -> list[str]:
    """Return log files that name parts with a column no log file states. Raises UsageError."""
    stated = {fold_name(name) for _, line in lines(snapshot) for name in line}
    silent: list[str] = []
    for target in planned.targets:
        if target.folded in stated:
            continue
        parts = holding[target.folded]
        if not parts:
            raise UsageError(
                f"neither a log file nor a part knows a column {target.column!r}",
                next_step="correct the name",
            )
        silent += [
            key
            for key, _ in lines(snapshot)
            if any(marker.p in parts for marker in snapshot.contents[key].markers)
        ]
    return silent


def _renamed(
    snapshot: Snapshot, targets: Sequence[Target], rewrites: Sequence[PartFix]
) -> dict[str, str]:
    """Return new column -> its type. Raises UsageError when there would be two."""
    renamed: dict[str, str] = {}
    for target in targets:
        if target.rename is None:
            continue
        kinds = {kind for fix in rewrites for name, kind in fix.columns if name == target.rename}
        if len(kinds) > 1:
            raise UsageError(
                f"column {target.rename!r} would be {' and '.join(sorted(kinds))}: parts hold "
                f"{target.column!r} in these types",
                next_step="rename them one after the other, each with --where-type and a name of "
                "its own",
            )
        there = snapshot.schema.get(target.rename)
        for kind in kinds:
            if there is not None and there != kind:
                raise UsageError(
                    f"the table has a column {target.rename!r} of type {there}, and parts would "
                    f"get it as {kind}",
                    next_step="choose another new name",
                )
            renamed[target.rename] = kind
    return renamed
