"""What clients of version 1 see, by their own rules."""

from __future__ import annotations

from collections.abc import Mapping

from firnline.log.records import LogContent, Marker


def v1_live(files: Mapping[str, LogContent]) -> dict[str, Marker]:
    """Live parts by the rules of version 1 alone: files in order of names, the later line wins."""
    live: dict[str, Marker] = {}
    for key in sorted(files):
        for marker in files[key].markers:
            if marker.tmb is None:
                live[marker.p] = marker
            else:
                live.pop(marker.p, None)
    return live
