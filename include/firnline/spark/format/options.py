"""What ``option(…)`` of the data source says, and the table it is about."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firnline.clock import SystemClock
from firnline.errors import UsageError
from firnline.ids import SystemIds
from firnline.paths import Root, TablePaths
from firnline.settings.load import TableSettings, find_table
from firnline.store.access import StoreAccess
from firnline.store.client import open_store
from firnline.table import Table
from firnline.units import parse_size

KNOWN = {
    *("path", "table", "settings", "columns", "where", "at", "dedup", "partitions"),
    *("bytespertask", "memory", "partition", "queryid", "checkpointlocation"),
    *("replacecolumn", "replacestart", "replaceend", "replaceequal", "mode", "pushfilters"),
    *("startingat", "maxpartsperbatch", "maxbytesperbatch"),
}
"""In lower case: Spark forgets how a user wrote them."""
BYTES_PER_TASK = 128 * 2**20
"""Bytes of parts that one task reads, unless asked otherwise."""
MEMORY = 512 * 2**20
"""Bytes of DuckDB's buffers in one task, unless asked otherwise."""


@dataclass(frozen=True)
class Opened:
    """A table that travels to the tasks: settings and access; every process opens it anew.

    It travels in Spark's closure, which is in no log and no argument list.
    """

    settings: TableSettings
    access: str = field(repr=False)
    """``StoreAccess.to_json``."""

    def table(self) -> Table:
        """Opened here; sends no request."""
        access, clock = StoreAccess.from_json(self.access), SystemClock()
        return Table(
            settings=self.settings,
            store=open_store(self.settings.root, access, clock=clock),
            paths=TablePaths(Root.parse(self.settings.root).prefix),
            clock=clock,
            ids=SystemIds(),
            access=access,
        )


def opened(options: Mapping[str, str], access: str | None) -> Opened:
    """The table that ``load()``, ``save()`` or ``start()`` names.

    Args:
        options: of the reader or writer.
        access: ``StoreAccess.to_json``; None for the environment of this process.

    Raises UsageError, SettingsError.
    """
    for name in options:
        if name.lower() not in KNOWN:
            raise UsageError(
                f"the data source firnline has no option {name!r}",
                next_step=f"choose among {', '.join(sorted(KNOWN))}",
            )
    target = options.get("path") or options.get("table")
    if not target:
        raise UsageError(
            "the data source firnline is not told which table",
            next_step="load or save a table's name or root: .load('s3://bucket/prefix')",
        )
    path = options.get("settings")
    found = find_table(target, Path(path) if path else None)
    return Opened(found, access or StoreAccess.from_env().to_json())


def size_option(options: Mapping[str, str], name: str, default: int) -> int:
    """Bytes, as 128MiB or a plain number. Raises UsageError."""
    text = options.get(name)
    return default if text is None else parse_size(text)


def flag_option(options: Mapping[str, str], name: str) -> bool | None:
    """True, false, or None where it is not said. Raises UsageError."""
    text = options.get(name)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise UsageError(f"option {name} is {text!r}", next_step="write true or false")
    return text.lower() == "true"


def list_option(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(piece.strip() for piece in options.get(name, "").split(",") if piece.strip())


def object_option(options: Mapping[str, str], name: str) -> dict[str, str | int | float | bool]:
    """A JSON object of plain values. Raises UsageError."""
    try:
        return msgspec.json.decode(
            options.get(name, "{}"), type=dict[str, str | int | float | bool]
        )
    except msgspec.MsgspecError:
        raise UsageError(
            f"option {name} is no JSON object of values", next_step='write it as {"client": 1234}'
        ) from None


def scratch() -> Path:
    """A folder on the disks that Spark gives its tasks."""
    disks = [disk for disk in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if disk]
    return Path(disks[0] if disks else tempfile.gettempdir())
