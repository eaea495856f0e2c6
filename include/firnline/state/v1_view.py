"""The view of a table by clients of log format version 1, and log files in their format.

Such clients read log files in the order of their names; of several markers of one part the last one
wins. They do not know deletes or transactions, and have no extension section.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firnline.log.records import LogContent, spelled


class _Header(msgspec.Struct, omit_defaults=True):
    v: int
    t: int
    sch: int
    f: int
    tmb: int | None = None


class _Marker(msgspec.Struct, omit_defaults=True):
    p: str
    b: int
    t: int
    tmb: int | None = None


def live_parts(contents: Mapping[str, LogContent]) -> set[str]:
    """Return the keys of the parts that a v1 reader considers live.

    Args:
        contents: log file -> content, of every log file that exists.
    """
    alive: dict[str, bool] = {}
    for key in sorted(contents):
        for marker in contents[key].markers:
            alive[marker.p] = marker.tmb is None
    return {path for path, is_alive in alive.items() if is_alive}


def is_v1(content: LogContent) -> bool:
    """Return True if a log file contains nothing that v1 does not know."""
    return (
        content.x is None
        and not content.deletes
        and not content.other
        and all(
            (m.n, m.q, m.d, m.o, m.c) == (None,) * 5
            and not (m.s or m.h or m.unknown().keys() - {"p"})
            for m in content.markers
        )
    )


def encode(content: LogContent) -> bytes:
    """Encode a log file with v1 content only; the rest of ``content`` is left out."""
    tombstones = len(content.tombstones)
    header = _Header(v=1, t=content.t, sch=1, f=2 + tombstones, tmb=2 if tombstones else None)
    lines = [
        header,
        content.schema,
        *content.tombstones,
        *(_Marker(spelled(m), m.b, m.t, m.tmb) for m in content.markers),
    ]
    return b"\n".join(map(msgspec.json.encode, lines))
