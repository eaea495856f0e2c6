"""Audit of rows: parts are read, and their digests compared with those of their markers.

A digest is of the columns under the names that the part has, so later changes of the schema do not
matter, and nothing of the table is needed but the marker. Of a part without a digest, which other
writers have written, a merge is tried that changes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

from firnline.errors import (
    DAMAGED_PART,
    ObjectNotFoundError,
    PartGoneError,
    PartSchemaError,
    PartUnreadableError,
)
from firnline.log.records import Marker
from firnline.operations.verify.attempt import Tried, not_tried
from firnline.operations.verify.findings import Findings
from firnline.operations.verify.foreign import Merged
from firnline.parquet.footers import is_safe
from firnline.store.base import Store
from firnline.types.digests import parse_digest
from firnline.units import DAY_MS


@dataclass(slots=True)
class RowsChecked:
    """Counts of an audit."""

    parts: int = 0
    """Parts that were read."""
    rows: int = 0
    unstated: int = 0
    """Parts, of those that were chosen, whose marker states no digest: a merge of them was tried,
    and their rows were compared with nothing else."""


def chosen(live: Mapping[str, Marker], every: int, now_ms: int) -> list[Marker]:
    """Return the parts to read today: one of ``every``, each part on one of so many days."""
    day = now_ms // DAY_MS
    return [m for m in live.values() if (crc32(m.p.encode()) + day) % every == 0]


def check_rows(
    store: Store,
    findings: Findings,
    parts: list[Marker],
    tell: Callable[[int, int], None],
    merged: Mapping[str, Merged] = MappingProxyType({}),
    attempt: Callable[[Marker, Path], Tried] = not_tried,
) -> RowsChecked:
    """Read parts one after the other and report those that differ from their markers.

    Requests: one GET for each part. Disk: one part, and what a merge of it needs if its marker
    states no digest.

    Args:
        store: of the parts.
        findings: takes what is found.
        parts: live parts.
        tell: called after each part with the number of those that are done and of all.
        merged: what parts should hold that other clients have merged, and that state no digest.
        attempt: tries a merge of a part in a folder.

    Raises:
        StoreError: the store failed.
        ScratchFullError: the disk is full.
    """
    checked = RowsChecked()
    with tempfile.TemporaryDirectory(prefix="firnline-rows-") as folder:
        for number, marker in enumerate(parts, 1):
            theirs = merged.get(marker.p)
            if parse_digest(marker.g) is not None:
                _check(store, findings, marker, Path(folder) / "part.parquet", checked)
            elif theirs is not None:
                _check(store, findings, marker, Path(folder) / "part.parquet", checked, theirs)
            else:
                checked.unstated += 1
                _try(findings, attempt(marker, Path(folder)), marker, checked)
            tell(number, len(parts))
    return checked


def _try(findings: Findings, tried: Tried, marker: Marker, checked: RowsChecked) -> None:
    error = tried.error
    if isinstance(error, ObjectNotFoundError | PartGoneError):
        return  # reported by check_objects
    checked.parts += 1
    checked.rows += tried.rows
    if error is None:
        return
    # The sentence begins with the part.
    sentence = error.message.removeprefix(f"part {marker.p} ")
    kind = "part-form" if isinstance(error, PartSchemaError) else "rows-unreadable"
    findings.add("error", kind, marker.p, sentence, error.next_step)


def _check(
    store: Store,
    findings: Findings,
    marker: Marker,
    path: Path,
    checked: RowsChecked,
    merged: Merged | None = None,
) -> None:
    try:
        store.get_file(marker.p, path)
        digest, rows = _read(path, None if merged is None else merged.columns)
    except ObjectNotFoundError:
        return  # reported by check_objects
    except PartUnreadableError as error:
        # The sentence begins with the part, whose copy this was.
        message = error.message.replace(str(path), "").strip()
        findings.add("error", "rows-unreadable", marker.p, message, error.next_step)
        return
    finally:
        path.unlink(missing_ok=True)
    checked.parts += 1
    checked.rows += rows
    if merged is not None and digest != merged.digest:
        findings.add(
            "warning", "v1-merged-rows", marker.p,
            f"was merged by a client of log version 1, and does not hold the rows of its inputs: "
            f"the digest of its {rows} rows is {digest}, and that of theirs {merged.digest}",
            "see with --deep whether it lacks columns; if that client merges by a query of its "
            "own, nothing is wrong",
        )  # fmt: skip
    if merged is None and digest != marker.g:
        findings.add(
            "error", "part-rows", marker.p,
            f"does not hold the rows that the log states: the digest of its {rows} rows is "
            f"{digest}, and that of its marker {marker.g}", DAMAGED_PART,
        )  # fmt: skip


def _read(path: Path, only: Collection[str] | None) -> tuple[str, int]:
    """Return the digest of a part's rows, and their number. Raises PartUnreadableError."""
    from firnline.parquet.digests import digest_file

    if not is_safe(path):
        raise PartUnreadableError("has a footer that cannot be parsed", next_step=DAMAGED_PART)
    read = digest_file(path, only)
    if read is None:
        raise PartUnreadableError(
            "has a column of a type without a digest, and its marker states one",
            next_step="read it with `firnline read`; it may have been replaced by another object",
        )
    return str(read[0]), read[1]
