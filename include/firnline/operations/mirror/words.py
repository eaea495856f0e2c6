"""A publication in words, for the command line, the log of a task and the note of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline.settings.mirrors import FORMATS
from firnline.units import counted

VERSION = {"delta": "version", "iceberg": "snapshot"}
"""Format -> the word for one of its states."""


def unplaced(table: str) -> tuple[str, str]:
    """Return that an Iceberg mirror was not published for want of its place, and what does it."""
    return (
        f"the Iceberg mirror of {table} was not published: these settings do not say where it is",
        f"`firnline mirror {table}` with the settings file that names its catalog publishes it",
    )


def sentence(data: Mapping[str, Any]) -> str:
    """Return what a publication did to each mirror, one sentence for each.

    Args:
        data: a ``MirrorReport`` as plain data.
    """
    return " ".join(sentence_of(data, name) for name in FORMATS if data[name] is not None)


def sentence_of(data: Mapping[str, Any], name: str) -> str:
    """Return the sentence about one format."""
    done, what = data[name], f"The {name.capitalize()} mirror of {data['table']}"
    if done["hold"] is not None:
        return f"{what} waits: {done['hold']['reason']}."
    if not done["written"]:
        return f"{what} shows its newest state."
    verb = "would get" if data["dry_run"] else "has"
    if done["repaired"]:
        verb = "would be repaired by" if data["dry_run"] else "is repaired by"
    columns = ", other columns" if done["columns_changed"] and done["version"] else ""
    made = done["vectors_made"]
    hidden = f", deleted rows looked up in {counted(made, 'file')}" if made else ""
    return (
        f"{what} {verb} a new {VERSION[name]}: {counted(done['adds'], 'file')} more, "
        f"{counted(done['removes'], 'file')} less{columns}{hidden}."
    )


def again(table: str) -> str:
    """Return how a damaged Delta mirror is made good, for whoever finds the damage."""
    return f"run `firnline mirror {table} --repair`: the table's own log is not concerned"
