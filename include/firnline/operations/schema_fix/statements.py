"""The types that log files state for a table's columns, also where they contradict; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from firnline.log.reader import LogRead
from firnline.log.records import Marker
from firnline.paths import TablePaths
from firnline.state.snapshot import Snapshot, standing
from firnline.types.schema import variants

_ID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


@dataclass(frozen=True, slots=True)
class LineSource:
    """A log file that states a column."""

    key: str
    t: int
    """Unix milliseconds."""
    writer: str
    """Host of an append, or the name of the transaction."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A column in one spelling and one type, and the log files and parts that have it so."""

    column: str
    type: str
    sources: tuple[LineSource, ...]
    """In order of their names, which begin with the time."""
    parts: int
    """Live parts that these log files name."""
    rows: int | None
    """Rows of these parts; None when a part does not state its rows."""
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain data; times in unix milliseconds."""
        return {
            "column": self.column,
            "type": self.type,
            "parts": self.parts,
            "rows": self.rows,
            "bytes": self.bytes,
            "log_files": [
                {"key": source.key, "t": source.t, "writer": source.writer}
                for source in self.sources
            ],
        }


def lines(snapshot: Snapshot) -> list[tuple[str, Mapping[str, str]]]:
    """Return (log file, its schema line in present names), of the log files whose line counts."""
    log = LogRead(snapshot.listing, snapshot.contents)
    return [(key, snapshot.line(key)) for key in standing(log)]


def disputes(snapshot: Snapshot) -> list[list[Statement]]:
    """Return the columns on which log files disagree, each with all statements about it."""
    return [
        statements(snapshot, folded)
        for folded, said in variants(lines(snapshot)).items()
        if len(said) > 1
    ]


def statements(snapshot: Snapshot, folded: str) -> list[Statement]:
    """Return the statements of log files about one column, in the order of their first occurrence.

    Args:
        snapshot: the state, read ``tolerant``.
        folded: name of the column by ``fold_name``.
    """
    said = variants(lines(snapshot)).get(folded, {})
    return [_statement(snapshot, *which, keys) for which, keys in said.items()]


def live_parts(snapshot: Snapshot, keys: Iterable[str]) -> dict[str, Marker]:
    """Return the live parts that any of these log files names, by path."""
    live = snapshot.live
    return {m.p: live[m.p] for key in keys for m in snapshot.contents[key].markers if m.p in live}


def _statement(snapshot: Snapshot, column: str, kind: str, keys: list[str]) -> Statement:
    parts = live_parts(snapshot, keys).values()
    rows = [marker.n for marker in parts]
    return Statement(
        column=column,
        type=kind,
        sources=tuple(source_of(snapshot, key) for key in keys),
        parts=len(parts),
        rows=None if None in rows else sum(n for n in rows if n is not None),
        bytes=sum(marker.b for marker in parts),
    )


def source_of(snapshot: Snapshot, key: str) -> LineSource:
    """Return writer and time of a log file."""
    name, mark = snapshot.listing[key].name, snapshot.contents[key].x
    if name.seq:
        return LineSource(
            key, name.t, f"transaction {name.seq}" + (f" ({mark.op})" if mark else "")
        )
    host = _host(snapshot.paths, key)
    return LineSource(key, name.t, f"merge of {host}" if name.kind == "foreign-merge" else host)


def _host(paths: TablePaths, key: str) -> str:
    rest = key.removeprefix(paths.log_dir).removesuffix(".jsonl").partition("_")[2]
    return _ID.sub("", rest.removeprefix("m_")) or rest
