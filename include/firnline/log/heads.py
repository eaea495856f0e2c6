"""The columns of a table from the heads of its log files: for writers, who need no marker.

A table of a million parts has log files of a hundred megabytes; their schema lines are in the
first kilobyte.
"""

from __future__ import annotations

from collections.abc import Mapping

from firnline.log import codec
from firnline.log.codec import Head
from firnline.log.reader import LogObject, list_log
from firnline.paths import TablePaths
from firnline.store.base import Store

HEAD_BYTES = 16 * 1024
"""First bytes of a log file in which the schema line is looked for."""
_GROWTH = 16
"""How much more is read at once when the first bytes were not enough."""


def read_schemas(store: Store, paths: TablePaths) -> list[tuple[str, dict[str, str]]]:
    """(log file, schema line) of every log file that no transaction of ours has folded.

    Requests: 1 LIST, and one ranged GET per such log file; a few more where the schema line is
    longer than ``HEAD_BYTES`` or a transaction folded hundreds of log files.

    Raises LogCorruptError.
    """
    listing, _ = list_log(store, paths)
    found: dict[str, dict[str, str]] = {}
    folded: set[str] = set()
    ours = [key for key, item in listing.items() if item.name.seq]
    for key in sorted(ours, key=lambda key: listing[key].name.seq, reverse=True):
        # As in reader.read_log: each says which of the older ones need no request.
        if key not in folded:
            head = _head(store, key, listing[key].size, b"", tombstones=True)
            found[key] = head.schema
            folded.update(stone.p for stone in head.tombstones)
    rest = [key for key in listing if key not in found and key not in folded]
    found |= _schemas(store, listing, rest)
    return sorted(found.items())


def _schemas(
    store: Store, listing: Mapping[str, LogObject], keys: list[str]
) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    longer: list[tuple[str, bytes]] = []
    for key, head in store.get_heads(keys, HEAD_BYTES):
        if head is None:
            continue  # cleaned up meanwhile: whoever folded it carries its columns
        decoded = codec.decode_head(key, head)
        if decoded is None:
            longer.append((key, head))
        else:
            found[key] = decoded.schema
    for key, head in longer:
        found[key] = _head(store, key, listing[key].size, head, tombstones=False).schema
    return found


def _head(store: Store, key: str, size: int, known: bytes, *, tombstones: bool) -> Head:
    """Read on until the head of one log file is there. Raises LogCorruptError."""
    step = HEAD_BYTES
    while True:
        head = codec.decode_head(key, known, tombstones=tombstones) if known else None
        if head is not None:
            return head
        if known and len(known) >= size:
            raise codec.corrupt(key, 1, "it ends before its sections do")
        known += store.get_range(key, len(known), min(step, size - len(known)))
        step *= _GROWTH
