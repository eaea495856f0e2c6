"""Add a table to the text of a settings file, and leave the rest of it as it is.

Comments and order matter to people, so the text is not parsed and written anew: the lines of the
table are inserted at the end of the block ``tables``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from firnline.errors import SettingsError, UsageError
from firnline.settings.document import KEYS, parse_yaml
from firnline.settings.files import is_folder, listed, read_file

_TABLES = re.compile(r"^tables:[ \t]*(#.*)?$")
_TOP = re.compile(r"^[^\s#]")
_KEY = re.compile(r"^( +)[^\s#-]")
_NEW = """\
# The tables that firnline maintains: `firnline settings check` finds mistakes in this file.
# All settings: docs/settings.md.

tables:
"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another file of settings in the folder of a file."""

    path: Path
    raw: bytes
    names: frozenset[str]
    """Of its tables."""


def neighbours(path: Path) -> list[Neighbour]:
    """Return the other files of settings in the folder of a file; with any it is one of settings.

    Raises SettingsError: the folder cannot be read.
    """
    if not is_folder(path.parent):
        return []
    others = (each for each in listed(path.parent) if each.name != path.name)
    return [found for each in others if (found := _neighbour(each)) is not None]


def _neighbour(path: Path) -> Neighbour | None:
    try:
        raw = read_file(path).raw
        content = parse_yaml(path, raw)
    except SettingsError:
        return None  # it may be that of another tool; if not, `firnline settings check` tells of it
    if not content or not content.keys() <= set(KEYS):
        return None
    tables = content.get("tables")
    return Neighbour(path, raw, frozenset(map(str, tables if isinstance(tables, dict) else ())))


def lines_of(name: str, values: Mapping[str, object], indent: str = "  ") -> list[str]:
    """Return a table as the lines of a settings file, without line ends."""
    lines = [f"{indent}{scalar(name)}:"]
    return [*lines, *(f"{indent * 2}{key}: {scalar(value)}" for key, value in values.items())]


def add_table(text: str, name: str, values: Mapping[str, object]) -> str:
    """Return the text of a settings file with one more table; of none, a new file.

    Args:
        text: the file, whose content is valid; empty for a new one.
        name: of the table, which it does not have.
        values: settings of the table, as YAML has them.

    Raises:
        UsageError: ``tables`` is not written as a block of lines.
    """
    if not text.strip():
        return _NEW + "\n".join(lines_of(name, values)) + "\n"
    lines = text.splitlines()
    places = [at for at, line in enumerate(lines) if _TABLES.match(line)]
    if not places:
        if any(line.startswith("tables") for line in lines):
            raise UsageError(
                "the settings file writes tables in one line or otherwise than as a block",
                next_step="write each table and each setting on a line of its own, as in "
                "docs/settings.md",
            )
        return "\n".join([*lines, "", "tables:", *lines_of(name, values)]) + "\n"
    start, end = places[0] + 1, len(lines)
    end = next((at for at in range(start, end) if _TOP.match(lines[at])), end)
    # Blank lines and comments before the next block belong to that.
    while end > start and not _is_content(lines[end - 1]):
        end -= 1
    added = lines_of(name, values, _indent(lines[start:end]))
    return "\n".join([*lines[:end], *added, *lines[end:]]) + "\n"


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(block: Sequence[str]) -> str:
    """Return the indentation of the names of tables in a block."""
    return next((found[1] for line in block if (found := _KEY.match(line))), "  ")


def scalar(value: object) -> str:
    """Return a value in one line of YAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("...\n").strip()
