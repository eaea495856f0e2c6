"""Records of merges of other clients that were taken back (``operations.rebuild``).

``{"taken-back":{"since":t,"to":t}}`` says that states as of the times from ``since`` up to ``to``,
unix milliseconds, show rows twice, or rows that had been deleted: no reader is given them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Span(msgspec.Struct, frozen=True):
    """Times between which a table had rows twice."""

    since: int
    to: int
    """Time of the transaction that took the merges back; not included."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    span: Span = msgspec.field(name="taken-back")


_DECODE = msgspec.json.Decoder(_Record).decode


def record(since: int, to: int) -> bytes:
    """Return the record of a span as a line."""
    return msgspec.json.encode(_Record(Span(since, to)))


def span_at(lines: Iterable[bytes], time_ms: int) -> Span | None:
    """Return the span that a time is in, of extension records of any kind; None if in none."""
    spans = (span for line in lines if (span := _read(line)) is not None)
    return next((span for span in spans if span.since <= time_ms < span.to), None)


def is_over(line: bytes, purged: int) -> bool:
    """Return True for the record of a span that no reader can ask for any more."""
    span = _read(line)
    return span is not None and span.to <= purged


def _read(line: bytes) -> Span | None:
    """Parse a line; None for a record of another kind, or in the form of a later version."""
    if not line.startswith(b'{"taken-back"'):
        return None
    try:
        return _DECODE(line).span
    except msgspec.MsgspecError:
        return None
