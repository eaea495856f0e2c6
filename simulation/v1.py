"""The table as clients of version 1 see it, by their own rules."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.log.records import LogContent, Marker


def v1_live(files: Mapping[str, LogContent]) -> dict[str, Marker]:
    """Return live parts by the rules of version 1: files ordered by name, the later line wins."""
    live: dict[str, Marker] = {}
    for key in sorted(files):
        for marker in files[key].markers:
            if marker.tmb is None:
                live[marker.p] = marker
            else:
                live.pop(marker.p, None)
    return live
