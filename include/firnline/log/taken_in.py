"""Appends that a transaction took into its log file, by who wrote them (docs/format.md, "Writers").

Until then the key of each one's own log file says it, and afterwards nothing but the header of the
transaction: a marker names writers, not how many appends they made nor how many rows each of them
wrote.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from firnline.log.parts_view import summed
from firnline.log.records import LogContent
from firnline.paths import LogName, writer_in
from firnline.units import counted

NAMED_WRITERS = 20
"""Writers that a header names at most, those of the most rows; what it says of others is a sum."""


class TakenIn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Appends of one writer, of those that gave themselves no name, or of several more writers."""

    writer: str = ""
    """Empty: who wrote them gave themselves no name, or they are those of ``more`` writers."""
    more: int = 0
    """Number of the writers that are not named, where their appends are summed; 0 for others."""
    appends: int
    """Log files of appends and imports that brought parts."""
    parts: int
    rows: int | None = None
    """None: a part does not state its rows, as those of other clients may not."""

    @property
    def who(self) -> str:
        """Return the writer in words, as the tables of the command line have it."""
        if self.more:
            return counted(self.more, "more writer")
        return self.writer or "not stated"

    def in_words(self) -> str:
        """Return writer, appends and rows, such as ``billing: 3 appends, 1,200 rows``."""
        rows = "" if self.rows is None else f", {counted(self.rows, 'row')}"
        return f"{self.who}: {counted(self.appends, 'append')}{rows}"


def taken_in(logs: Iterable[tuple[LogName, LogContent]]) -> tuple[TakenIn, ...]:
    """Return what a transaction took in: the most rows first, then those who named nobody.

    Nothing if no writer gave itself a name: a header then says no more than it ever did.

    Args:
        logs: names and contents of the log files that it folds, of any kind; one that brings no
            live part is no append.
    """
    found = defaultdict[str, list[LogContent]](list)
    for name, content in logs:
        if name.kind == "append" and any(marker.tmb is None for marker in content.markers):
            found[writer_in(name.key) or ""].append(content)
    unnamed = found.pop("", [])
    named = sorted(
        map(_of, found, found.values()), key=lambda each: (-(each.rows or 0), each.writer)
    )
    if not named:
        return ()
    first, rest = named[:NAMED_WRITERS], named[NAMED_WRITERS:]
    return (*first, *_united(rest), *([_of("", unnamed)] if unnamed else []))


def _of(writer: str, contents: Sequence[LogContent]) -> TakenIn:
    found = summed(m for content in contents for m in content.markers if m.tmb is None)
    return TakenIn(writer=writer, appends=len(contents), parts=found.parts, rows=found.rows)


def _united(rest: Sequence[TakenIn]) -> tuple[TakenIn, ...]:
    """Return the sum of the writers that are not named, if there are any."""
    if not rest:
        return ()
    rows = [each.rows for each in rest]
    return (
        TakenIn(
            more=len(rest),
            appends=sum(each.appends for each in rest),
            parts=sum(each.parts for each in rest),
            rows=None if None in rows else sum(n or 0 for n in rows),
        ),
    )
