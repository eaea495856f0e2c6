"""Records of merges of other clients that were taken back (``operations.rebuild``).

``{"taken-back":{"since":t,"to":t}}`` says that states as of the times from ``since`` up to ``to``,
unix milliseconds, show rows twice, or rows that had been deleted: no reader is given them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firnline.log.record_kind import RecordKind


class Span(msgspec.Struct, frozen=True):
    """Times between which a table had rows twice."""

    since: int
    to: int
    """Time of the transaction that took the merges back; not included."""


_KIND = RecordKind("taken-back", Span)
_read = _KIND.read


def record(since: int, to: int) -> bytes:
    """Return the record of a span as a line."""
    return _KIND.line(Span(since, to))


def span_at(lines: Iterable[bytes], time_ms: int) -> Span | None:
    """Return the span that a time is in, of extension records of any kind; None if in none."""
    spans = (span for line in lines if (span := _read(line)) is not None)
    return next((span for span in spans if span.since <= time_ms < span.to), None)


def is_over(line: bytes, purged: int) -> bool:
    """Return True for the record of a span that no reader can ask for any more."""
    span = _read(line)
    return span is not None and span.to <= purged
