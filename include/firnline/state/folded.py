"""The parts that log files list, those of folded log files included."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firnline.log.reader import LogRead
from firnline.log.records import LogContent, Marker
from firnline.log.schema_lines import folded_by_ours
from firnline.log.union import union_parts


def parts_of(log: LogRead, contents: Sequence[LogContent]) -> dict[str, Marker]:
    """Return the parts; those that only folded log files list alive are dead and forgotten.

    A transaction carries all that it folds, but the markers of parts that are deleted. A folded log
    file that a process which slept has created once more (``log.fence``) lists them alive.
    """
    parts = union_parts(contents)
    folded = folded_by_ours(log) & log.contents.keys()
    if folded:
        carried = {m.p for key, c in log.contents.items() if key not in folded for m in c.markers}
        purged = log.mark.purged if log.mark is not None else 0
        forgotten = {p for p, m in parts.items() if m.tmb is None and p not in carried}
        parts |= {p: msgspec.structs.replace(parts[p], tmb=purged) for p in forgotten}
    return parts
