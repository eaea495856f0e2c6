"""The tables of the pictures, and how their last days went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.lived import DAY_MS, HOUR_MS, Past, SetClock
from firnline.clock import SystemClock
from firnline.settings.load import load_settings
from firnline.state.snapshot import read_snapshot

_SETTINGS = "partition_by: [day(ts)], sort_by: [carrier]"
_BEFORE = 4
"""Days before a mishap."""


@dataclass(frozen=True)
class Shown:
    """A table of the pictures, and how its last days went."""

    name: str
    days: int
    merged: bool = True
    cleaned: bool = True
    late: int = 0
    """Appends since the last merge."""
    rows: int = 100
    mishap: bool = False
    """True if somebody removed the wrong day and brought it back, and a column was renamed."""


def make_tables(home: Path, tables: Sequence[Shown], more: Sequence[str] = ()) -> Path:
    """Make tables in a folder; return their settings file.

    Args:
        home: the folder.
        tables: these.
        more: lines of the settings file before its tables.
    """
    lines = [f"  {t.name}: {{root: 'file://{home}/{t.name}', {_SETTINGS}}}" for t in tables]
    # Nobody listens on this port: what a store looks like that is away.
    lines.append(f"  sensors: {{root: 's3://sensors/raw', {_SETTINGS}}}")
    settings = home / "tables.yaml"
    settings.write_text("\n".join([*more, "tables:", *lines, ""]), encoding="utf-8")
    for shown, table in zip(tables, load_settings(settings).tables.values(), strict=False):
        begin = SystemClock().now_ms() - shown.days * DAY_MS - (shown.late + 1) * HOUR_MS
        _live(Past(table, home / shown.name, SetClock(begin), shown.rows), shown)
    return settings


STORE_AWAY = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    "AWS_REGION": "x",
}
"""Environment in which the store of one of the tables does not answer."""


def _live(past: Past, shown: Shown) -> None:
    past.days(_BEFORE if shown.mishap else shown.days, merged=shown.merged, cleaned=shown.cleaned)
    if shown.mishap:
        snapshot = read_snapshot(past.table.store, past.table.paths)
        past.drop(sorted(snapshot.partitions)[-2])
        past.restore(snapshot.seq)
        past.days(shown.days - _BEFORE)
        past.rename_delay("delay_minutes")
    for _ in range(shown.late):
        past.append()
        past.clock.go(HOUR_MS)
