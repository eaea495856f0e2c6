"""A publication in one sentence, for the command line, the log of a task and the note of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.units import counted


def sentence(data: Mapping[str, Any]) -> str:
    """Return what a publication did to the mirror.

    Args:
        data: a ``MirrorReport`` as plain data.
    """
    delta, name = data["delta"], data["table"]
    if delta["hold"] is not None:
        return f"The mirror of {name} waits: {delta['hold']['reason']}."
    if not delta["written"]:
        return f"The mirror of {name} shows its newest state."
    verb = "would get" if data["dry_run"] else "has"
    columns = ", other columns" if delta["columns_changed"] and delta["version"] else ""
    made = delta["vectors_made"]
    hidden = f", deleted rows looked up in {counted(made, 'file')}" if made else ""
    return (
        f"The mirror of {name} {verb} a new version: {counted(delta['adds'], 'file')} more, "
        f"{counted(delta['removes'], 'file')} less{columns}{hidden}."
    )
