"""Names of the writers of the rows of a part (docs/format.md, "Writers").

The name comes from the key of the append's log file, which the bucket's policy can tie to whoever
writes (docs/deploy.md); markers carry it once the log file is folded, also to what replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from firnline.log.records import Marker
from firnline.paths import writer_in

MOST = 16
"""Writers that a marker names at most; of rows of more it names none."""


def written_by(key: str, markers: list[Marker]) -> list[Marker]:
    """Return the markers of a log file with the writer that its key names, if it names one."""
    writer = writer_in(key)
    if writer is None:
        return markers
    named = (writer,)
    return [msgspec.structs.replace(marker, w=named) for marker in markers]


def writers_of(markers: Iterable[Marker]) -> tuple[str, ...] | None:
    """Return the writers of the rows of parts, sorted; None: no part names one, or too many."""
    names = sorted({name for marker in markers for name in marker.w or ()})
    return tuple(names) if 0 < len(names) <= MOST else None
