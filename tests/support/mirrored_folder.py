"""A table in a folder whose settings name a mirror, and what lies in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firnline.settings.load import TableSettings
from firnline.table import Table, open_table


def mirrored(tmp_path: Path, **settings: Any) -> Table:
    """A table in a folder whose settings name a mirror."""
    given = {"name": "t", "root": f"file://{tmp_path}/t", "mirror": ["delta"], **settings}
    return open_table(TableSettings.model_validate(given))


def versions(tmp_path: Path) -> int:
    return len(list((tmp_path / "t/_delta_log").glob("*.json")))


def damage(tmp_path: Path) -> str:
    """The newest version of the mirror does not read any more; returns what it was."""
    newest = max((tmp_path / "t/_delta_log").glob("*.json"))
    was = newest.read_text()
    newest.write_text("{}\n")
    return was
