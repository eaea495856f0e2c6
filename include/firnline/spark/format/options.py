"""Parse the options of the data source, and open the table that they name."""

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
    "mirror",
    *("startingat", "maxpartsperbatch", "maxbytesperbatch", "changes", "since", "until"),
}
"""In lower case: Spark does not preserve the case of option names."""
BYTES_PER_TASK = 128 * 2**20
"""Default bytes of parts that one task reads."""
MEMORY = 512 * 2**20
"""Default bytes of DuckDB's buffers in one task."""


@dataclass(frozen=True)
class Opened:
    """Settings and access of a table; sent to the tasks, and every process opens it again.

    It is sent in Spark's closure, which appears in no log and no argument list.
    """

    settings: TableSettings
    access: str = field(repr=False)
    """``StoreAccess.to_json``."""

    def table(self) -> Table:
        """Open the table in this process; sends no request."""
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
    """Return the table that ``load()``, ``save()`` or ``start()`` names.

    Args:
        options: options of the reader or writer.
        access: ``StoreAccess.to_json``; None: the environment of this process.

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
            "the data source firnline needs the name of a table",
            next_step="load or save a table's name or root: .load('s3://bucket/prefix')",
        )
    path = options.get("settings")
    found = find_table(target, Path(path) if path else None)
    return Opened(found, access or StoreAccess.from_env().to_json())


def size_option(options: Mapping[str, str], name: str, default: int) -> int:
    """Return a size in bytes, given as 128MiB or a plain number. Raises UsageError."""
    text = options.get(name)
    return default if text is None else parse_size(text)


def flag_option(options: Mapping[str, str], name: str) -> bool | None:
    """Return True or False, or None if the option is not set. Raises UsageError."""
    text = options.get(name)
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise UsageError(f"option {name} is {text!r}", next_step="write true or false")
    return text.lower() == "true"


def list_option(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list."""
    return tuple(piece.strip() for piece in options.get(name, "").split(",") if piece.strip())


def object_option(options: Mapping[str, str], name: str) -> dict[str, str | int | float | bool]:
    """Parse a JSON object of plain values. Raises UsageError."""
    try:
        return msgspec.json.decode(
            options.get(name, "{}"), type=dict[str, str | int | float | bool]
        )
    except msgspec.MsgspecError:
        raise UsageError(
            f"option {name} is not a JSON object of values",
            next_step='write it as {"client": 1234}',
        ) from None


def scratch() -> Path:
    """Return a folder on the disks that Spark gives its tasks."""
    disks = [disk for disk in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if disk]
    return Path(disks[0] if disks else tempfile.gettempdir())
