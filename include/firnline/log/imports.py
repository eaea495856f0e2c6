"""Records of imports (docs/format.md, "Import"): which folder, and where the list of files is.

``{"imported":{"id":…,"source":prefix,"t":…,"files":n,"number":n}}`` is an extension record of the
log. An import keeps the list of all files that were taken so far in an object
(``operations.import_files.taken``); the numbers of these imports follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from firnline.log.record_kind import RecordKind


class ImportedFrom(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of an import in the log, which prevents a second import by mistake."""

    id: str
    """Append id."""
    source: str
    """Key prefix of the folder, ending in ``/``."""
    t: int
    """Time of the import, unix ms."""
    files: int
    number: int = 0
    """Number of its list, one more than that of the list it continues; 0: it has none."""


_KIND = RecordKind("imported", ImportedFrom)


def record_line(record: ImportedFrom) -> bytes:
    """Return the extension record of a log file."""
    return _KIND.line(record)


def records_of(lines: Iterable[bytes]) -> list[ImportedFrom]:
    """Return the imports among a table's extension records."""
    return [record for record in map(_KIND.read, lines) if record is not None]


def overlapping(records: Iterable[ImportedFrom], prefix: str) -> list[ImportedFrom]:
    """Return the imports of a folder, of one above it or of one below it."""
    return [e for e in records if e.source.startswith(prefix) or prefix.startswith(e.source)]


def last_listed(records: Iterable[ImportedFrom]) -> ImportedFrom | None:
    """Return the import with the newest list; None without one."""
    listed = (each for each in records if each.number)
    return max(listed, key=lambda each: each.number, default=None)


def without_continued(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records without those of imports that a later one of the same folder continues."""
    kept = list(lines)
    last: dict[str, int] = {}
    for each in records_of(kept):
        last[each.source] = max(each.number, last.get(each.source, 0))
    return [line for line in kept if not _is_continued(line, last)]


def _is_continued(line: bytes, last: Mapping[str, int]) -> bool:
    record = _KIND.read(line)
    return record is not None and 0 < record.number < last[record.source]


def without_lists(lines: Iterable[bytes]) -> list[bytes]:
    """Return the records for a table that has no list of the files: a clone."""
    kept = []
    for line in lines:
        record = _KIND.read(line)
        kept.append(line if record is None else record_line(replace(record, number=0)))
    return kept
