"""The parts that the log names against the objects that there are, and against their footers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from firnline.ids import uuid7_time_ms
from firnline.log import dated
from firnline.log.records import Marker
from firnline.log.schema_changes import AS_IT_IS, PartColumns
from firnline.operations.verify.log import Findings, Severity
from firnline.parquet.footers import FooterFacts
from firnline.paths import TablePaths, path_columns
from firnline.store.base import ObjectMeta
from firnline.types.schema import normalise
from firnline.types.sql import fold_name
from firnline.types.widening import widens

_BACKUP = "restore it from a backup, or take its partition out with `firnline drop`"


@dataclass(slots=True)
class _Sum:
    """Objects that are told of together."""

    first: str = ""
    count: int = 0
    bytes: int = 0

    def add(self, key: str, size: int) -> None:
        self.first = self.first or key
        self.count += 1
        self.bytes += size


@dataclass(slots=True)
class Counted:
    """What was looked at."""

    objects: int = 0
    bytes: int = 0
    orphans: int = 0
    """Past ``orphan_grace``."""
    orphan_bytes: int = 0
    young: int = 0
    """Objects that nobody names and that may belong to a run still under way."""


@dataclass(slots=True)
class _Walk:
    found: Findings
    parts: Mapping[str, Marker]
    purged: int
    counted: Counted = field(default_factory=Counted)
    orphans: _Sum = field(default_factory=_Sum)
    unpurged: _Sum = field(default_factory=_Sum)
    seen: set[str] = field(default_factory=set)

    def take(self, meta: ObjectMeta, now_ms: int, orphan_grace: int) -> None:
        self.counted.objects += 1
        self.counted.bytes += meta.size
        marker = self.parts.get(meta.key)
        if marker is None:
            since = dated.named_since(_name_time(meta.key), meta.modified_ms, now_ms)
            if since < now_ms - orphan_grace:
                self.orphans.add(meta.key, meta.size)
            else:
                self.counted.young += 1
            return
        self.seen.add(marker.p)
        if marker.tmb is not None:
            if marker.tmb <= self.purged:
                self.unpurged.add(meta.key, meta.size)
        elif marker.b != meta.size:
            self.found.add(
                "error", "part-size", meta.key,
                f"has {meta.size} bytes, and the log states {marker.b}", _BACKUP,
            )  # fmt: skip


def check_objects(
    found: Findings,
    parts: Mapping[str, Marker],
    purged: int,
    objects: Iterable[ObjectMeta],
    now_ms: int,
    orphan_grace: int,
) -> Counted:
    """Compare every object under ``_data/`` with the parts, in one pass over the listing.

    Args:
        found: takes what is found.
        parts: all parts of the log, dead ones included.
        purged: horizon up to which dead parts are confirmed deleted.
        objects: listing of ``_data/``, begun after the log was read.
        now_ms: wall clock.
        orphan_grace: objects that nobody names count as left over when they are older, in ms.
    """
    walk = _Walk(found, parts, purged)
    for meta in objects:
        walk.take(meta, now_ms, orphan_grace)
    gone = _Sum()
    for path, marker in parts.items():
        if path in walk.seen:
            continue
        if marker.tmb is None:
            found.add("error", "part-missing", path, "is live and has no object", _BACKUP)
        elif marker.tmb > purged:
            gone.add(path, marker.b)
    _tell_sums(found, walk, gone)
    walk.counted.orphans, walk.counted.orphan_bytes = walk.orphans.count, walk.orphans.bytes
    return walk.counted


def _tell_sums(found: Findings, walk: _Walk, gone: _Sum) -> None:
    orphans, unpurged = walk.orphans, walk.unpurged
    if orphans.count:
        found.add(
            "note", "orphans", orphans.first,
            f"and in all {orphans.count} objects ({orphans.bytes} bytes) are named by no log file "
            "and older than orphan_grace", "see `firnline sweep`, which lists them",
        )  # fmt: skip
    if unpurged.count:
        found.add(
            "warning", "part-not-purged", unpurged.first,
            f"and in all {unpurged.count} dead parts ({unpurged.bytes} bytes) still exist, and the "
            "log has them as deleted", "delete them by hand, once no reader needs them",
        )  # fmt: skip
    if gone.count:
        found.add(
            "note", "part-gone-early", gone.first,
            f"and in all {gone.count} dead parts are deleted, and the log does not say so yet: "
            "states of the table before that cannot be read", "run `firnline cleanup`",
        )  # fmt: skip


def _name_time(key: str) -> int | None:
    """Time in a part's own name, unix ms; None when it has none."""
    name = key.rpartition("/")[2].removesuffix(".parquet")
    try:
        return uuid7_time_ms(name)
    except ValueError:
        return None


_NULL = '"NULL"'
"""Type of a column that holds nothing else."""


@dataclass(slots=True)
class FooterCheck:
    """Compares footers with markers, one after the other, then the parts with each other."""

    found: Findings
    paths: TablePaths
    live: Mapping[str, Marker]
    columns: Mapping[str, str]
    """The table's, column -> SQL type."""
    disputed: frozenset[str] = frozenset()
    """Columns, by ``fold_name``, of which log files contradict each other: nobody can say which
    part is right."""
    columns_of: Callable[[Marker], PartColumns] = lambda _: AS_IT_IS
    """How the columns of a part become the table's."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of columns, by the names that they may have in parts."""
    count: int = 0
    rows: int = 0
    _replaced: dict[str, str] = field(default_factory=dict)
    """Key of a part -> the live part that was made from it."""

    def take(self, facts: FooterFacts) -> None:
        """One live part's footer."""
        self.count += 1
        if facts.gone:
            return  # told of by check_objects
        if facts.error is not None:
            self._add("error", "footer-unreadable", facts.key, facts.error, facts.next_step)
            return
        self.rows += facts.rows
        marker = self.live[facts.key]
        if marker.n is not None and marker.n != facts.rows:
            self._add(
                "error", "footer-rows", facts.key,
                f"has {facts.rows} rows, and the log states {marker.n}", _BACKUP,
            )  # fmt: skip
        self._check_columns(facts)
        self._check_origin(facts)

    def finish(self) -> None:
        """Parts that are live beside a part made from them."""
        for old, new in sorted(self._replaced.items()):
            if old in self.live:
                self._add(
                    "error", "part-twice", old,
                    f"is live, and so is {new}, which was made from it: its rows are there twice",
                    "drop the one that should not be there; report this with `firnline history`",
                )  # fmt: skip

    def _check_columns(self, facts: FooterFacts) -> None:
        table = {fold_name(name): kind for name, kind in self.columns.items()}
        held = self.columns_of(self.live[facts.key])
        path = {fold_name(n) for n in path_columns(self.paths.parse_part(facts.key).partition)}
        for raw, kind in facts.columns.items():
            name = held.column(raw)
            if name is None or fold_name(name) in self.disputed:
                continue
            known = table.get(fold_name(name))
            if known is None and fold_name(name) in path:
                continue  # a client of version 1 wrote it; merges leave it out
            if known is None:
                why = f"has a column {name!r} ({kind}) that the table does not have"
            elif normalise(known) != normalise(kind) and not widens(kind, known) and kind != _NULL:
                why = f"has column {name!r} as {kind}, and the table has it as {known}"
            else:
                continue
            step = (
                f"`firnline schema fix --column {shlex.quote(name)} --all-parts` with the --type "
                "that it is to have mends it"
            )
            self._add("error", "footer-schema", facts.key, why, step)

    def _check_origin(self, facts: FooterFacts) -> None:
        part = facts.part
        if part is None:
            return
        name = self.paths.parse_part(facts.key)
        for old in part.replaces:
            self._replaced[self.paths.partition_dir(name.partition) + old] = facts.key
        if part.table == self.paths.prefix and part.partition != name.partition:
            self._add(
                "warning", "part-moved", facts.key,
                f"was written for partition {part.partition!r}", "move it back or rewrite it",
            )  # fmt: skip

    def _add(self, severity: Severity, kind: str, key: str, sentence: str, next_step: str) -> None:
        self.found.add(severity, kind, key, sentence, next_step)
